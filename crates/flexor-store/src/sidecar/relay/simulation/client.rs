//! What simulated clients do, and what must be true of the replies they get.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::{Buf, Bytes};

use crate::codec::{Request, STOP_WAITING, WAIT_CANCELED};
use crate::service::ConnId;
use crate::sidecar::simulated_master::Store;

const STEPS: usize = 12;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// ADD to the counter of all.
    Count,
    /// APPEND to the list of all.
    Append,
    /// GET the register of all.
    Look,
    /// COMPARE_SET it from what was seen to something that nobody else writes.
    Swap,
    /// SET a key of its own.
    Publish,
    /// GET the key of its own.
    ReadOwn,
    /// WAIT for the key of somebody else.
    WaitFor(usize),
    /// WAIT for what never comes, and take it back.
    GiveUp,
    /// BARRIER of all, and take it back.
    PassBy,
    /// BARRIER of all.
    Meet,
}

#[derive(Debug)]
enum Awaited {
    Count,
    Register,
    Swapped { expected: Bytes, desired: Bytes },
    Own,
    Wait { is_canceled: bool, can_end: bool },
    Meeting,
}

pub(super) struct Client {
    pub(super) conn: ConnId,
    id: usize,
    all: usize,
    steps: VecDeque<Step>,
    awaited: Option<Awaited>,
    /// How many have come to the barrier, in this whole world.
    met: Rc<Cell<usize>>,
    made: usize,
    published: Bytes,
    register: Bytes,
    appended: usize,
    counts: Vec<i64>,
    swaps: Vec<(Bytes, Bytes)>,
}

impl Client {
    pub(super) fn new(id: usize, all: usize, met: Rc<Cell<usize>>, mut roll: impl FnMut(usize) -> usize) -> Client {
        let mut steps = VecDeque::from([Step::Publish]);
        for _ in 0..STEPS {
            match roll(9) {
                0 | 1 => steps.push_back(Step::Count),
                2 => steps.push_back(Step::Append),
                3 | 4 => steps.extend([Step::Look, Step::Swap]),
                5 => steps.extend([Step::Publish, Step::ReadOwn]),
                6 => steps.push_back(Step::WaitFor(roll(all))),
                7 => steps.push_back(Step::GiveUp),
                _ => steps.push_back(Step::PassBy),
            }
        }
        steps.push_back(Step::Meet);
        Client {
            conn: ConnId::fresh(),
            id,
            all,
            steps,
            awaited: None,
            met,
            made: 0,
            published: Bytes::new(),
            register: Bytes::new(),
            appended: 0,
            counts: Vec::new(),
            swaps: Vec::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.steps.is_empty() && self.awaited.is_none()
    }

    pub(super) fn standing(&self) -> String {
        format!("client {}: awaits {:?}, then {:?}", self.id, self.awaited, self.steps)
    }

    /// What it asks for next, if it does not have to wait.
    pub(super) fn next_request(&mut self, is_impatient: bool) -> Option<Request> {
        if let Some(awaited) = &mut self.awaited {
            let Awaited::Wait { is_canceled: is_canceled @ false, .. } = awaited else { return None };
            *is_canceled = is_impatient;
            return is_impatient.then_some(Request::CancelWait);
        }
        let (key, step) = (Bytes::from_static, self.steps.pop_front()?);
        let (request, awaited) = match step {
            Step::Count => (Request::Add { key: key(b"count"), delta: 1 }, Some(Awaited::Count)),
            Step::Append => {
                self.appended += 1;
                (Request::Append { key: key(b"list"), value: self.something_new() }, None)
            }
            Step::Look => (Request::Get { key: key(b"register") }, Some(Awaited::Register)),
            Step::Swap => {
                let (expected, desired) = (self.register.clone(), self.something_new());
                let request =
                    Request::CompareSet { key: key(b"register"), expected: expected.clone(), desired: desired.clone() };
                (request, Some(Awaited::Swapped { expected, desired }))
            }
            Step::Publish => {
                self.published = self.something_new();
                (Request::Set { key: own_key(self.id), value: self.published.clone() }, None)
            }
            Step::ReadOwn => (Request::Get { key: own_key(self.id) }, Some(Awaited::Own)),
            Step::WaitFor(other) => (
                Request::Wait { keys: vec![own_key(other), own_key(self.id)] },
                Some(Awaited::Wait { is_canceled: false, can_end: true }),
            ),
            Step::GiveUp => (
                Request::Wait { keys: vec![own_key(self.id), key(b"never")] },
                Some(Awaited::Wait { is_canceled: false, can_end: false }),
            ),
            Step::PassBy => (
                // One more than will ever come.
                Request::Barrier { key: key(b"passed"), world_size: i64::MAX },
                Some(Awaited::Wait { is_canceled: false, can_end: false }),
            ),
            Step::Meet => {
                self.met.set(self.met.get() + 1);
                let world_size = i64::try_from(self.all).unwrap();
                (Request::Barrier { key: key(b"meeting"), world_size }, Some(Awaited::Meeting))
            }
        };
        self.awaited = awaited;
        Some(request)
    }

    /// Takes bytes that the sidecar sent. There must be a request that they answer.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        let awaited = self.awaited.take().unwrap_or_else(|| panic!("client {} asked for no {bytes:?}", self.id));
        let mut reply = bytes;
        match awaited {
            Awaited::Count => self.counts.push(reply.get_i64_le()),
            Awaited::Register => self.register = value(&mut reply),
            Awaited::Swapped { expected, desired } => {
                self.register = value(&mut reply);
                if self.register == desired {
                    self.swaps.push((expected, desired));
                }
            }
            Awaited::Own => assert_eq!(value(&mut reply), self.published, "nobody else writes it"),
            Awaited::Wait { is_canceled: true, .. } => assert_eq!(reply.get_u8(), WAIT_CANCELED),
            Awaited::Wait { is_canceled: false, can_end } => {
                assert!(can_end, "it never comes");
                assert_eq!(reply.get_u8(), STOP_WAITING);
            }
            Awaited::Meeting => {
                assert_eq!(reply.get_u8(), STOP_WAITING);
                assert_eq!(self.met.get(), self.all, "nobody passes before all have come");
            }
        }
        assert!(reply.is_empty(), "client {} got {reply:?} too many", self.id);
    }

    fn something_new(&mut self) -> Bytes {
        self.made += 1;
        Bytes::from(format!("{}.{} ", self.id, self.made))
    }
}

/// What only all clients together can tell: whether one order of everything they did explains all their replies.
pub(super) fn check_together(clients: &[&Client], store: &Store) {
    let mut counts: Vec<i64> = clients.iter().flat_map(|client| client.counts.clone()).collect();
    assert!(clients.iter().all(|client| client.counts.is_sorted()));
    counts.sort_unstable();
    assert!(counts.iter().copied().eq((1..).take(counts.len())), "each ADD counts once: {counts:?}");

    let swaps: Vec<_> = clients.iter().flat_map(|client| client.swaps.clone()).collect();
    let replaced: BTreeSet<_> = swaps.iter().map(|(expected, _)| expected).collect();
    assert_eq!(replaced.len(), swaps.len(), "each value of the register is replaced once: {swaps:?}");
    let written: BTreeSet<_> = swaps.iter().map(|(_, desired)| desired).collect();
    assert!(replaced.iter().all(|value| value.is_empty() || written.contains(value)), "{swaps:?}");

    let list = store.value(&Bytes::from_static(b"list"));
    // Of each client: how many items, and the last one's number.
    let mut last = BTreeMap::<usize, (usize, usize)>::new();
    for item in std::str::from_utf8(&list).unwrap().split_whitespace() {
        let (client, number) = item.split_once('.').unwrap();
        let (count, latest) = last.entry(client.parse().unwrap()).or_default();
        let number = number.parse().unwrap();
        assert!(number > *latest, "each client's items stand once and in its order: {list:?}");
        (*count, *latest) = (*count + 1, number);
    }
    for client in clients {
        assert_eq!(last.get(&client.id).map_or(0, |(count, _)| *count), client.appended, "no item is lost");
    }

    let met = store.value(&Bytes::from_static(b"meeting"));
    assert_eq!(met, clients.len().to_string(), "everybody counts once at the barrier");
}

fn own_key(client: usize) -> Bytes {
    Bytes::from(format!("own/{client}"))
}

fn value(reply: &mut &[u8]) -> Bytes {
    let length = usize::try_from(reply.get_u64_le()).unwrap();
    reply.copy_to_bytes(length)
}
