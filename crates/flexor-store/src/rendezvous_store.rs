//! The TCPStore front end of a rendezvous: a store that understands torchrun's rendezvous keys.
//!
//! [`RendezvousStore`] wraps a [`Keyspace`]. It reads torchrun's writes of a run's state as [intents](intent), applies
//! them as events to the [`Runs`] that it borrows, and answers each reader with its own [view]. All other requests go to
//! the keyspace. Connections that close or fall silent become events too.
//!
//! The store owns neither the rendezvous nor the journal. Its owner calls it under one lock, journals
//! [`RendezvousStore::take_facts`] and the facts of the runs, and only then calls [`RendezvousStore::answer`].

mod facts;
mod intent;
mod lost_peers;
mod replay;
mod replies;
mod requests;
mod run_clients;
mod run_key;
mod sidecars;
mod view;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use flexor_engine::rendezvous::{Cause, Event, Fact, MemberId, Runs};
use flexor_model::Reason;

pub use facts::{Lsn, NoRecorder, OperationRecord, Recorded, Recorder, RunId, StoreFact};

use crate::keyspace::Keyspace;
use crate::service::{ConnId, Now, Outbox, Service};
use crate::state::{NodeDesc, Stamp, Zone};
use run_clients::RunClients;
use view::member_of;

/// Reads the wall clock, in microseconds since the Unix epoch.
pub type WallClock = Box<dyn Fn() -> i64 + Send>;

/// A TCPStore whose rendezvous keys are views of a rendezvous.
pub struct RendezvousStore {
    keyspace: Keyspace,
    runs: BTreeMap<RunId, RunClients>,
    connections: HashMap<ConnId, ClientConnection>,
    wall_clock: WallClock,
    /// Changes of keys and completed operations that are not journaled yet.
    facts: Vec<StoreFact>,
    /// The last operation of each connection of each sidecar that changed a key, so that it is not repeated.
    operations: HashMap<(u64, u64), CompletedOperation>,
    is_plain: bool,
}

/// A client connection.
#[derive(Debug, Clone, Default)]
struct ClientConnection {
    run: Option<RunId>,
    node: Option<NodeDesc>,
    /// The pod, if the connection comes through a sidecar.
    pod: Option<Arc<str>>,
    clock: Option<ClockReading>,
    /// The last long value that the connection was sent.
    last_value: Option<view::StateValue>,
    /// The node closed the run without being a member, so it alone is shown a closed run.
    sees_closed: bool,
}

/// The last operation that was completed on a connection of a sidecar.
#[derive(Debug, Clone)]
struct CompletedOperation {
    number: u64,
    reply: Bytes,
    at: Now,
}

/// A node as one master describes it to the next one, by way of its sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedNode {
    pub name: String,
    /// The node's timestamps carry no time zone.
    pub clock_is_naive: bool,
    /// The time on the clock of its machine, in microseconds since the Unix epoch.
    pub unix_us: i64,
}

/// The time on an agent's clock, and on both of our clocks at that moment.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    theirs: Stamp,
    wall: i64,
    now: Now,
}

impl ClockReading {
    /// Estimates the agent's present time. Takes the later of our two clocks: the monotonic one stops while a machine is
    /// suspended, the wall clock can be set back, and an agent that reads a stale stamp gives itself up.
    fn extrapolate(self, wall: i64, now: Now) -> Option<Stamp> {
        let steady = i64::try_from(now.saturating_sub(self.now).as_micros()).unwrap_or(i64::MAX);
        self.theirs.later_by(steady.max(wall.saturating_sub(self.wall)))
    }
}

impl RendezvousStore {
    /// Creates an empty store.
    pub fn new(wall_clock: WallClock) -> Self {
        Self {
            keyspace: Keyspace::recording(),
            runs: BTreeMap::new(),
            connections: HashMap::new(),
            wall_clock,
            facts: Vec::new(),
            operations: HashMap::new(),
            is_plain: false,
        }
    }

    /// Turns the store into a plain TCPStore, which interprets no keys.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.is_plain = true;
        self
    }

    /// The keys, for callers inside the process.
    pub fn keyspace_mut(&mut self) -> &mut Keyspace {
        &mut self.keyspace
    }

    /// The keys.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The node that a connection speaks for, once it is known.
    pub fn node_of(&self, conn: ConnId) -> Option<NamedNode> {
        let connection = self.connections.get(&conn)?;
        let (node, clock) = (connection.node.as_ref()?, connection.clock.as_ref()?);
        let (clock_is_naive, unix_us) = (clock.theirs.zone() == Zone::Unsaid, clock.theirs.unix_micros());
        Some(NamedNode { name: node.to_string(), clock_is_naive, unix_us })
    }

    /// Registers a new connection.
    pub fn opened(&mut self, conn: ConnId) {
        self.connections.insert(conn, ClientConnection::default());
    }

    /// Forgets a closed connection. The member that it speaks for is lost.
    pub fn closed(&mut self, conn: ConnId, runs: &mut Runs, now: Now, out: &mut Outbox) {
        for (run, id) in self.members_of(&[conn]) {
            if self.speaks_for(conn, &run, &id) {
                let cause = Cause::new(Reason::ConnectionClosed, "its connection closed");
                self.apply(runs, &run, Event::Lost { id, cause }, now, out);
            }
        }
        self.forget_connection(conn, now, out);
    }

    /// Sends a heartbeat for every node whose connection waits for a reply of ours, because such a node cannot speak.
    /// `is_paused` if the owner withholds all replies.
    pub fn renew_waiting_connections(&mut self, is_paused: bool, runs: &mut Runs, now: Now, out: &mut Outbox) {
        let owed: HashSet<ConnId> = self.runs.values().flat_map(RunClients::owed).collect();
        let waits = |conn: &ConnId| is_paused || owed.contains(conn) || self.keyspace.waiting_for(*conn).is_some();
        let waiting: Vec<ConnId> = self
            .connections
            .iter()
            .filter(|(conn, connection)| connection.pod.is_none() && connection.node.is_some() && waits(conn))
            .map(|(conn, _)| *conn)
            .collect();
        self.heartbeat(&waiting, runs, now, out);
    }

    /// Sends a heartbeat for the members of these connections.
    pub fn heartbeat(&mut self, conns: &[ConnId], runs: &mut Runs, now: Now, out: &mut Outbox) {
        for (run, id) in self.members_of(conns) {
            self.apply(runs, &run, Event::Heartbeat { id }, now, out);
        }
    }

    /// Closes the connection of a member, if it has one.
    pub fn close_connection_of(&self, run: &str, id: &MemberId, detail: &str, out: &mut Outbox) {
        if let Some(conn) = self.runs.get(run).and_then(|run| run.connections.get(id)) {
            out.close(*conn, format!("{id} is gone: {detail}"));
        }
    }

    /// Lets all connections be read from again.
    pub fn resume_reading(&self, out: &mut Outbox) {
        self.connections.keys().for_each(|conn| out.resume(*conn));
    }

    /// Acts on facts of a run, whichever front end caused them: updates the world's view, releases agents that wait for a
    /// lost peer, and removes the keys of old rounds.
    pub fn observe(&mut self, runs: &Runs, id: &RunId, facts: &[Fact], out: &mut Outbox) {
        let Some(machine) = runs.get(id).filter(|_| !facts.is_empty()) else { return };
        let clients = self.runs.entry(Arc::clone(id)).or_default();
        clients.observe(machine, facts);
        for fact in facts {
            match fact {
                Fact::Dropped { id: member, .. } => {
                    clients.connections.remove(member);
                    lost_peers::fill_rank_exchange(id, machine, member, &mut self.keyspace, out);
                    lost_peers::release_exit_barrier(id, machine, &clients.exits, &mut self.keyspace, out);
                }
                Fact::Completed { .. } => {
                    if let Some(world) = machine.world() {
                        lost_peers::forget_old_rounds(id, world, &mut self.keyspace);
                    }
                }
                Fact::Reopened { .. } => {
                    let of_run = self.connections.values_mut().filter(|connection| connection.run.as_ref() == Some(id));
                    of_run.for_each(|connection| connection.sees_closed = false);
                }
                Fact::Joined { .. }
                | Fact::Standby { .. }
                | Fact::ProcessesChanged { .. }
                | Fact::Left { .. }
                | Fact::Finished { .. }
                | Fact::Closed { .. }
                | Fact::Expected { .. } => {}
            }
        }
    }

    /// Applies an event to a run and acts on the facts.
    fn apply(&mut self, runs: &mut Runs, run: &RunId, event: Event, now: Now, out: &mut Outbox) {
        let facts = runs.apply(run, event, now);
        self.observe(runs, run, &facts, out);
    }

    /// Whether a connection is the one that speaks for a member: an older connection may end after a newer one began.
    fn speaks_for(&self, conn: ConnId, run: &RunId, id: &MemberId) -> bool {
        self.runs.get(run).and_then(|run| run.connections.get(id)) == Some(&conn)
    }

    fn members_of(&self, conns: &[ConnId]) -> Vec<(RunId, MemberId)> {
        let member = |conn: &ConnId| {
            let connection = self.connections.get(conn)?;
            Some((connection.run.clone()?, member_of(connection.node.as_ref()?)))
        };
        conns.iter().filter_map(member).collect()
    }

    fn forget_connection(&mut self, conn: ConnId, now: Now, out: &mut Outbox) {
        self.keyspace.closed(conn, now, out);
        if let Some(connection) = self.connections.remove(&conn)
            && let Some(run) = connection.run.and_then(|run| self.runs.get_mut(&run))
        {
            run.forget_connection(conn);
        }
    }
}
