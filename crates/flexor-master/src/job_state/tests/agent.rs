//! A small model of torch's rendezvous client: it decides from the state that it reads, as the real one does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use flexor_engine::rendezvous::Settings;

use flexor_store::codec::Request;
use flexor_store::rendezvous_store::{NoRecorder, Recorded, Recorder, StoreFact};
use flexor_store::service::{ConnId, Outbox, Refused, Service};
use flexor_store::state::{self, NodeDesc, RendezvousState, Stamp};

use super::super::JobState;

/// The key of a run's state.
pub(super) fn state_key(run: &str) -> Bytes {
    format!("/torch.rendezvous.{run}").into()
}

const WALL: i64 = 1_700_000_000_000_000;

/// A job with a clock that the test advances, and the bytes that it has sent to each connection.
pub(super) struct Scene {
    pub(super) state: JobState,
    pub(super) out: Outbox,
    pub(super) now: Duration,
    inboxes: HashMap<ConnId, Vec<u8>>,
    leap: Arc<Mutex<i64>>,
    wall_now: Arc<Mutex<i64>>,
}

impl Scene {
    pub(super) fn new(settings: Settings) -> Self {
        Self::with(settings, Box::new(NoRecorder))
    }

    pub(super) fn recording(settings: Settings, journal: SlowJournal) -> Self {
        Self::with(settings, Box::new(journal))
    }

    fn with(settings: Settings, recorder: Box<dyn Recorder>) -> Self {
        let (leap, wall_now) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(WALL)));
        let (leap_of_store, wall_of_store) = (Arc::clone(&leap), Arc::clone(&wall_now));
        let wall_clock =
            Box::new(move || *leap_of_store.lock().expect("leap") + *wall_of_store.lock().expect("wall clock"));
        let mut state = JobState::new(settings, wall_clock);
        state.record_with(recorder);
        let now = Duration::from_secs(10);
        Self { state, out: Outbox::default(), now, inboxes: HashMap::new(), leap, wall_now }
    }

    pub(super) fn agent(&mut self, name: &str) -> Agent {
        let conn = ConnId::fresh();
        let peer = ([127, 0, 0, 1], 1).into();
        self.state.opened(conn, peer, self.now, &mut self.out);
        let desired = Bytes::from_static(state::SENTINEL);
        self.request(conn, Request::CompareSet { key: state_key("job"), expected: Bytes::new(), desired });
        self.take(conn);
        let node = NodeDesc { addr: name.into(), pid: 7, local_id: 0 };
        Agent {
            conn,
            node,
            clock_ahead: 0,
            last_write: None,
            known: Bytes::from_static(state::SENTINEL),
            read_at: WALL,
        }
    }

    /// Agents that form a world.
    pub(super) fn world(&mut self, names: &[&str]) -> Vec<Agent> {
        let mut agents: Vec<Agent> = names.iter().map(|name| self.agent(name)).collect();
        agents.iter_mut().for_each(|agent| agent.next_rendezvous(self));
        agents.iter_mut().for_each(|agent| assert!(matches!(agent.poll(self), Reading::World { .. })));
        agents
    }

    pub(super) fn request(&mut self, conn: ConnId, request: Request) {
        self.try_request(conn, request).expect("the request is served");
    }

    pub(super) fn try_request(&mut self, conn: ConnId, request: Request) -> Result<(), Refused> {
        self.state.request(conn, request, self.now, &mut self.out)
    }

    /// Takes the bytes that were sent to a connection.
    pub(super) fn take(&mut self, conn: ConnId) -> Vec<u8> {
        for (to, bytes) in self.out.take_sent() {
            self.inboxes.entry(to).or_default().extend_from_slice(&bytes);
        }
        self.inboxes.remove(&conn).unwrap_or_default()
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        *self.wall_now.lock().expect("wall clock") += i64::try_from(time.as_micros()).expect("short");
        self.state.tick(self.now, &mut self.out);
    }

    pub(super) fn wall_clock_leaps(&mut self, micros: i64) {
        *self.leap.lock().expect("leap") += micros;
    }

    pub(super) fn journal_advanced(&mut self) {
        self.state.journal_advanced(self.now, &mut self.out);
    }

    fn true_wall(&self) -> i64 {
        *self.wall_now.lock().expect("wall clock")
    }
}

/// How an agent interprets the state that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Held,
    World { round: u64, rank: u64, size: usize },
    RestartWanted,
    Waiting,
    Redundant,
    Closed,
    Outside,
}

impl Reading {
    pub(super) fn world(round: u64, rank: u64, size: usize) -> Self {
        Self::World { round, rank, size }
    }
}

/// An agent of torchrun.
pub(super) struct Agent {
    pub(super) conn: ConnId,
    pub(super) node: NodeDesc,
    /// How far its clock is ahead, in microseconds.
    pub(super) clock_ahead: i64,
    /// Its last write.
    pub(super) last_write: Option<Request>,
    known: Bytes,
    read_at: i64,
}

impl Agent {
    /// Leaves its world, as torch's exit operation does, and joins the next one.
    pub(super) fn next_rendezvous(&mut self, scene: &mut Scene) {
        self.look(scene);
        let mut state = self.state();
        if state.participants.iter().any(|(node, _)| *node == self.node) {
            state.participants.retain(|(node, _)| *node != self.node);
            state.last_heartbeats.retain(|(node, _)| *node != self.node);
            self.write(scene, &state);
            assert_ne!(self.poll(scene), Reading::Held, "leaving is answered at once");
        }
        let mut state = self.state();
        assert!(!state.complete, "a round can be joined at once: {state:?}");
        state.participants.push((self.node.clone(), 0));
        self.stamp(&mut state, scene);
        self.write(scene, &state);
    }

    pub(super) fn keep_alive(&mut self, scene: &mut Scene) {
        let mut state = self.state();
        self.stamp(&mut state, scene);
        self.write(scene, &state);
        self.poll(scene);
    }

    pub(super) fn close(&mut self, scene: &mut Scene) {
        self.look(scene);
        let state = RendezvousState { closed: true, ..self.state() };
        self.write(scene, &state);
        self.poll(scene);
    }

    pub(super) fn disconnect(self, scene: &mut Scene) {
        scene.state.closed(self.conn, scene.now, &mut scene.out);
    }

    /// Reads and interprets the state.
    pub(super) fn look(&mut self, scene: &mut Scene) -> Reading {
        scene.request(self.conn, Request::Get { key: state_key("job") });
        self.poll(scene)
    }

    /// Interprets a reply, if one has arrived.
    pub(super) fn poll(&mut self, scene: &mut Scene) -> Reading {
        let reply = scene.take(self.conn);
        if reply.is_empty() {
            return Reading::Held;
        }
        self.known = Bytes::copy_from_slice(&reply[8..]);
        self.read_at = scene.true_wall() + self.clock_ahead;
        read_state(&reply, &self.node)
    }

    /// The age of its own heartbeat by its own clock, in the last state that it read.
    pub(super) fn own_heartbeat_age(&self) -> Duration {
        let state = self.state();
        let own =
            state.last_heartbeats.iter().find(|(node, _)| *node == self.node).expect("the state has its own heartbeat");
        Duration::from_micros(u64::try_from(self.read_at - own.1.unix_micros()).unwrap_or(0))
    }

    fn state(&self) -> RendezvousState {
        if self.known == state::SENTINEL {
            return RendezvousState::default();
        }
        state::decode(&self.known).expect("a state")
    }

    fn stamp(&self, state: &mut RendezvousState, scene: &Scene) {
        let clock = Stamp::from_unix_micros(scene.true_wall() + self.clock_ahead).expect("in range");
        state.last_heartbeats.retain(|(node, _)| *node != self.node);
        state.last_heartbeats.push((self.node.clone(), clock));
    }

    fn write(&mut self, scene: &mut Scene, state: &RendezvousState) {
        let desired = Bytes::from(state::encode(state));
        let key = state_key("job");
        let write = Request::CompareSet { key, expected: self.known.clone(), desired };
        self.last_write = Some(write.clone());
        scene.request(self.conn, write);
    }
}

/// Interprets a reply to a node.
pub(super) fn read_state(reply: &[u8], node: &NodeDesc) -> Reading {
    let state = state::decode(&reply[8..]).expect("a state");
    if state.closed {
        return Reading::Closed;
    }
    if state.redundancy_list.contains(node) {
        return Reading::Redundant;
    }
    let rank = state.participants.iter().find(|(other, _)| other == node).map(|(_, rank)| *rank);
    match rank {
        Some(_) if !state.complete => Reading::Waiting,
        _ if !state.wait_list.is_empty() => Reading::RestartWanted,
        Some(rank) => Reading::World { round: state.round, rank, size: state.participants.len() },
        None => Reading::Outside,
    }
}

/// A journal whose records become durable when the test says so.
#[derive(Debug, Clone, Default)]
pub(super) struct SlowJournal(Arc<Mutex<SlowJournalState>>);

#[derive(Debug, Default)]
struct SlowJournalState {
    facts: Vec<StoreFact>,
    written: u64,
    durable: u64,
    full: bool,
    fast: bool,
}

impl SlowJournal {
    pub(super) fn sync(&self) {
        let mut journaled = self.0.lock().expect("journal");
        journaled.durable = journaled.written;
    }

    pub(super) fn set_full(&self, full: bool) {
        self.0.lock().expect("journal").full = full;
    }

    pub(super) fn set_fast(&self) {
        self.0.lock().expect("journal").fast = true;
    }

    pub(super) fn facts(&self) -> Vec<StoreFact> {
        self.0.lock().expect("journal").facts.clone()
    }
}

impl Recorder for SlowJournal {
    fn record(&mut self, facts: &[StoreFact]) -> Recorded {
        let mut journaled = self.0.lock().expect("journal");
        journaled.facts.extend_from_slice(facts);
        journaled.written += 1;
        if journaled.fast {
            journaled.durable = journaled.written;
        }
        Recorded { lsn: journaled.written, kept: !journaled.full }
    }

    fn durable(&self) -> u64 {
        self.0.lock().expect("journal").durable
    }
}
