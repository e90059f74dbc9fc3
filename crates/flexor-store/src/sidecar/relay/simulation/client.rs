//! Simulated clients, and the checks of the replies that they get.

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
    /// ADD to the shared counter.
    Count,
    /// APPEND to the shared list.
    Append,
    /// GET the shared register.
    ReadRegister,
    /// COMPARE_SET the register from the value that was read to a unique one.
    Swap,
    /// SET the client's own key.
    Publish,
    /// GET the client's own key.
    ReadOwn,
    /// WAIT for the key of another client.
    WaitFor(usize),
    /// WAIT for a key that is never set, and cancel the wait.
    CancelWait,
    /// BARRIER that is never reached, and cancel the wait.
    CancelBarrier,
    /// BARRIER of all clients.
    Barrier,
}

#[derive(Debug)]
enum PendingReply {
    Count,
    Register,
    Swapped { expected: Bytes, desired: Bytes },
    Own,
    Wait { is_canceled: bool, can_end: bool },
    Barrier,
}

pub(super) struct Client {
    pub(super) conn: ConnId,
    id: usize,
    all: usize,
    steps: VecDeque<Step>,
    pending: Option<PendingReply>,
    /// How many clients of the world have reached the barrier.
    arrived: Rc<Cell<usize>>,
    made: usize,
    published: Bytes,
    register: Bytes,
    appended: usize,
    counts: Vec<i64>,
    swaps: Vec<(Bytes, Bytes)>,
}

impl Client {
    pub(super) fn new(id: usize, all: usize, arrived: Rc<Cell<usize>>, mut roll: impl FnMut(usize) -> usize) -> Client {
        let mut steps = VecDeque::from([Step::Publish]);
        for _ in 0..STEPS {
            match roll(9) {
                0 | 1 => steps.push_back(Step::Count),
                2 => steps.push_back(Step::Append),
                3 | 4 => steps.extend([Step::ReadRegister, Step::Swap]),
                5 => steps.extend([Step::Publish, Step::ReadOwn]),
                6 => steps.push_back(Step::WaitFor(roll(all))),
                7 => steps.push_back(Step::CancelWait),
                _ => steps.push_back(Step::CancelBarrier),
            }
        }
        steps.push_back(Step::Barrier);
        Client {
            conn: ConnId::fresh(),
            id,
            all,
            steps,
            pending: None,
            arrived,
            made: 0,
            published: Bytes::new(),
            register: Bytes::new(),
            appended: 0,
            counts: Vec::new(),
            swaps: Vec::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.steps.is_empty() && self.pending.is_none()
    }

    pub(super) fn describe(&self) -> String {
        format!("client {}: awaits {:?}, then {:?}", self.id, self.pending, self.steps)
    }

    /// The next request, if the client does not wait for a reply.
    pub(super) fn next_request(&mut self, is_impatient: bool) -> Option<Request> {
        if let Some(pending) = &mut self.pending {
            let PendingReply::Wait { is_canceled: is_canceled @ false, .. } = pending else { return None };
            *is_canceled = is_impatient;
            return is_impatient.then_some(Request::CancelWait);
        }
        let (key, step) = (Bytes::from_static, self.steps.pop_front()?);
        let (request, pending) = match step {
            Step::Count => (Request::Add { key: key(b"count"), delta: 1 }, Some(PendingReply::Count)),
            Step::Append => {
                self.appended += 1;
                (Request::Append { key: key(b"list"), value: self.unique_value() }, None)
            }
            Step::ReadRegister => (Request::Get { key: key(b"register") }, Some(PendingReply::Register)),
            Step::Swap => {
                let (expected, desired) = (self.register.clone(), self.unique_value());
                let request =
                    Request::CompareSet { key: key(b"register"), expected: expected.clone(), desired: desired.clone() };
                (request, Some(PendingReply::Swapped { expected, desired }))
            }
            Step::Publish => {
                self.published = self.unique_value();
                (Request::Set { key: own_key(self.id), value: self.published.clone() }, None)
            }
            Step::ReadOwn => (Request::Get { key: own_key(self.id) }, Some(PendingReply::Own)),
            Step::WaitFor(other) => (
                Request::Wait { keys: vec![own_key(other), own_key(self.id)] },
                Some(PendingReply::Wait { is_canceled: false, can_end: true }),
            ),
            Step::CancelWait => (
                Request::Wait { keys: vec![own_key(self.id), key(b"never")] },
                Some(PendingReply::Wait { is_canceled: false, can_end: false }),
            ),
            Step::CancelBarrier => (
                // More clients than there are.
                Request::Barrier { key: key(b"passed"), world_size: i64::MAX },
                Some(PendingReply::Wait { is_canceled: false, can_end: false }),
            ),
            Step::Barrier => {
                self.arrived.set(self.arrived.get() + 1);
                let world_size = i64::try_from(self.all).unwrap();
                (Request::Barrier { key: key(b"barrier"), world_size }, Some(PendingReply::Barrier))
            }
        };
        self.pending = pending;
        Some(request)
    }

    /// Takes a reply of the sidecar. There must be a request that it answers.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        let pending = self.pending.take().unwrap_or_else(|| panic!("client {} expects no {bytes:?}", self.id));
        let mut reply = bytes;
        match pending {
            PendingReply::Count => self.counts.push(reply.get_i64_le()),
            PendingReply::Register => self.register = value(&mut reply),
            PendingReply::Swapped { expected, desired } => {
                self.register = value(&mut reply);
                if self.register == desired {
                    self.swaps.push((expected, desired));
                }
            }
            PendingReply::Own => assert_eq!(value(&mut reply), self.published, "no other client writes the key"),
            PendingReply::Wait { is_canceled: true, .. } => assert_eq!(reply.get_u8(), WAIT_CANCELED),
            PendingReply::Wait { is_canceled: false, can_end } => {
                assert!(can_end, "the key is never set");
                assert_eq!(reply.get_u8(), STOP_WAITING);
            }
            PendingReply::Barrier => {
                assert_eq!(reply.get_u8(), STOP_WAITING);
                assert_eq!(self.arrived.get(), self.all, "no client passes the barrier before all have reached it");
            }
        }
        assert!(reply.is_empty(), "client {} got {reply:?} too many", self.id);
    }

    fn unique_value(&mut self) -> Bytes {
        self.made += 1;
        Bytes::from(format!("{}.{} ", self.id, self.made))
    }
}

/// Checks all clients together: one order of all operations must explain all replies.
pub(super) fn check_all(clients: &[&Client], store: &Store) {
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
        assert!(number > *latest, "each item of a client occurs once and in order: {list:?}");
        (*count, *latest) = (*count + 1, number);
    }
    for client in clients {
        assert_eq!(last.get(&client.id).map_or(0, |(count, _)| *count), client.appended, "no item is lost");
    }

    let arrived = store.value(&Bytes::from_static(b"barrier"));
    assert_eq!(arrived, clients.len().to_string(), "each client counts once at the barrier");
}

fn own_key(client: usize) -> Bytes {
    Bytes::from(format!("own/{client}"))
}

fn value(reply: &mut &[u8]) -> Bytes {
    let length = usize::try_from(reply.get_u64_le()).unwrap();
    reply.copy_to_bytes(length)
}
