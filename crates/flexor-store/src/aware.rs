//! A store that understands the one value torchrun keeps in it.
//!
//! [`AwareStore`] wraps a [`Keyspace`] and serves the state of each run itself: writes are read as [intents](intent), the
//! engine's rendezvous decides, and each reader gets its own [view]. Everything else goes to the keyspace as in a plain
//! store. A member is lost when its connection closes, when it is silent, or when somebody who knows says so.
//!
//! It is a [`Service`] without sockets and clock. Whatever changes is written down through a [`Recorder`] before anybody
//! is answered.

mod answers;
mod facts;
mod intent;
mod lost_peer;
mod recovery;
mod requests;
mod run;
mod run_key;
mod sidecars;
mod status;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flexor_engine::rendezvous::{Cause, Event, MemberId, Place, Rendezvous, Settings};
use flexor_model::Reason;
use tokio::sync::watch;

pub use facts::{Lsn, NoRecorder, Origin, Recorded, Recorder, RunId, StoreFact};
pub use status::{MemberStatus, RunStatus};

use crate::codec::Request;
use crate::keyspace::Keyspace;
use crate::service::{ConnId, Now, Outbox, Refused, Service};
use crate::state::{NodeDesc, Stamp, Zone};
use run::Run;
use view::member_of;

/// Time must be told at least this often while there are members.
const PULSE: Duration = Duration::from_secs(1);

/// Reads the wall clock, in microseconds since the Unix epoch.
pub type WallClock = Box<dyn Fn() -> i64 + Send>;

/// The store.
pub struct AwareStore {
    keyspace: Keyspace,
    runs: BTreeMap<RunId, Run>,
    settings: Settings,
    connections: HashMap<ConnId, Connection>,
    recorder: Box<dyn Recorder>,
    wall_clock: WallClock,
    /// Decided, not yet written down.
    pending: Vec<StoreFact>,
    /// What cannot be sent before this much of the journal is durable, because it could not be written down.
    withheld: Vec<Outbox>,
    withheld_until: Lsn,
    /// Nobody waits to be read from because too much waits to be written.
    had_room: bool,
    /// The last operation of each connection of each sidecar that changed something, so that it is not done twice.
    operations: HashMap<(u64, u64), Done>,
    changes: watch::Sender<u64>,
    /// How many nodes are expected in every run, those included that nobody has joined yet.
    expected: Option<u32>,
    ticked: Now,
    plain: bool,
}

/// What is known of a connection.
#[derive(Debug, Clone, Default)]
struct Connection {
    run: Option<RunId>,
    node: Option<NodeDesc>,
    /// The pod, where a sidecar told it.
    pod: Option<Arc<str>>,
    clock: Option<ClockSeen>,
    /// The long value that it was shown last.
    shown: Option<view::Shown>,
    /// It was told that the run is closed, because it closed it without having a say in it.
    sees_closed: bool,
}

/// The last operation that was done on a connection of a sidecar.
#[derive(Debug, Clone)]
struct Done {
    number: u64,
    reply: Bytes,
    at: Now,
}

/// A node as one master tells it to the next, by way of its sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedNode {
    /// Its name.
    pub name: String,
    /// Its times do not say that they are in UTC.
    pub clock_is_naive: bool,
    /// The time on the clock of its machine, in microseconds since the Unix epoch.
    pub unix_us: i64,
}

/// The time on an agent's clock, and on both of ours when it was seen.
#[derive(Debug, Clone, Copy)]
struct ClockSeen {
    theirs: Stamp,
    wall: i64,
    now: Now,
}

impl ClockSeen {
    /// The agent's time by now. The later of what our two clocks say: one stands still while a machine is suspended,
    /// the other can be set back, and a stamp that is too old is what makes an agent give itself up.
    fn by(self, wall: i64, now: Now) -> Option<Stamp> {
        let steady = i64::try_from(now.saturating_sub(self.now).as_micros()).unwrap_or(i64::MAX);
        self.theirs.later_by(steady.max(wall.saturating_sub(self.wall)))
    }
}

impl AwareStore {
    /// An empty store whose runs have these settings.
    pub fn new(settings: Settings, recorder: Box<dyn Recorder>, wall_clock: WallClock) -> Self {
        Self {
            keyspace: Keyspace::recording(),
            runs: BTreeMap::new(),
            settings,
            connections: HashMap::new(),
            recorder,
            wall_clock,
            pending: Vec::new(),
            withheld: Vec::new(),
            withheld_until: 0,
            had_room: true,
            operations: HashMap::new(),
            changes: watch::Sender::new(0),
            expected: None,
            ticked: Duration::ZERO,
            plain: false,
        }
    }

    /// The same store, which understands nothing: a plain TCPStore.
    #[must_use]
    pub fn plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Writes down what changes from here on.
    pub fn record_with(&mut self, recorder: Box<dyn Recorder>) {
        self.recorder = recorder;
    }

    /// The keys, for callers inside the process. Changes must be followed by [`AwareStore::settle`].
    pub fn keyspace_mut(&mut self) -> &mut Keyspace {
        &mut self.keyspace
    }

    /// The keys.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// The machine of a run.
    pub fn machine(&self, run: &str) -> Option<&Rendezvous> {
        self.runs.get(run).map(|run| &run.machine)
    }

    /// Changes whenever nodes have to be told something: a world, that all should meet again, the end of a run.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether the present world of a run may be told: whether it will be known after the machine has ended, too.
    pub fn is_visible(&self, run: &str) -> bool {
        self.runs.get(run).is_none_or(|run| self.recorder.durable() >= run.visible_after)
    }

    /// The rank of a member in the world of a run, if it stands there.
    pub fn rank_of(&self, run: &str, id: &MemberId) -> Option<u32> {
        let run = self.runs.get(run)?;
        run.view.as_ref()?.ranks.get(id).copied().filter(|_| run.machine.place_of(id) == Some(Place::World))
    }

    /// Whether more can be written down at present.
    pub fn can_record(&self) -> bool {
        self.recorder.has_room()
    }

    /// Whether nobody is answered, because nothing can be written down.
    pub fn is_paused(&self) -> bool {
        self.withheld_until > 0
    }

    /// What there is to tell of every run.
    pub fn status(&self) -> Vec<RunStatus> {
        // A run that only the controller has spoken of is none to tell about beside one that trains.
        let is_used = |run: &&Run| run.machine.world().is_some() || run.machine.members().next().is_some();
        let any_used = self.runs.values().any(|run| is_used(&run));
        self.runs.values().filter(|run| !any_used || is_used(run)).map(status::of_run).collect()
    }

    /// The node that a connection speaks for, once it is known.
    pub fn node_of(&self, conn: ConnId) -> Option<NamedNode> {
        let connection = self.connections.get(&conn)?;
        let (node, clock) = (connection.node.as_ref()?, connection.clock.as_ref()?);
        let (clock_is_naive, unix_us) = (clock.theirs.zone() == Zone::Unsaid, clock.theirs.unix_micros());
        Some(NamedNode { name: node.to_string(), clock_is_naive, unix_us })
    }

    /// Tells the machine of a run something that does not come through TCPStore. The run is made if it is missing.
    pub fn tell(&mut self, run: &RunId, event: Event, now: Now, out: &mut Outbox) {
        if self.ensure_run(run).is_ok() {
            self.feed(run, event, now, out);
        }
        self.settle(now, out);
    }

    /// How many nodes are expected is known, or not known any more. Said of `run` and of every other.
    pub fn expect(&mut self, run: &RunId, nodes: Option<u32>, now: Now, out: &mut Outbox) {
        self.expected = nodes;
        self.tell_all(run, &Event::Expect { nodes }, now, out);
    }

    /// The controller tries again: every closed run is opened.
    pub fn reopen(&mut self, run: &RunId, now: Now, out: &mut Outbox) {
        self.tell_all(run, &Event::Reopen, now, out);
    }

    /// Whoever controls a job knows nothing of its runs: what it says holds for all, and for the one named like the job
    /// even before anybody came to it.
    fn tell_all(&mut self, run: &RunId, event: &Event, now: Now, out: &mut Outbox) {
        let _ = self.ensure_run(run);
        let runs: Vec<RunId> = self.runs.keys().cloned().collect();
        for run in runs {
            self.feed(&run, event.clone(), now, out);
        }
        self.settle(now, out);
    }

    /// A pod or node is gone, as somebody knows who watches it. Returns how many members that was.
    pub fn node_gone(&mut self, name: &str, detail: &str, now: Now, out: &mut Outbox) -> usize {
        let found: Vec<(RunId, MemberId)> = self
            .runs
            .values()
            .flat_map(|run| run.members_named(name).into_iter().map(|member| (Arc::clone(&run.id), member)))
            .collect();
        for (run, id) in &found {
            if let Some(conn) = self.runs.get(run).and_then(|run| run.connections.get(id)) {
                out.close(*conn, format!("{id} is gone: {detail}"));
            }
            let cause = Cause::new(Reason::PodGone, detail);
            self.feed(run, Event::Gone { id: id.clone(), cause }, now, out);
        }
        self.settle(now, out);
        found.len()
    }

    /// The pods that members come from, where sidecars told them.
    pub fn pods_of_members(&self) -> BTreeSet<Arc<str>> {
        self.runs.values().flat_map(|run| run.pods.values().cloned()).collect()
    }

    /// Which pods are known to be on their way or running, those that have joined included.
    pub fn announce(&mut self, run: &RunId, pods: &BTreeSet<Arc<str>>, now: Now, out: &mut Outbox) {
        let _ = self.ensure_run(run);
        let runs: Vec<RunId> = self.runs.keys().cloned().collect();
        for id in runs {
            let Some(run) = self.runs.get_mut(&id) else { continue };
            run.announced = pods.iter().filter(|pod| run.members_named(pod).is_empty()).cloned().collect();
            let missing = u32::try_from(run.announced.len()).unwrap_or(u32::MAX);
            self.feed(&id, Event::Announced { missing }, now, out);
        }
        self.settle(now, out);
    }

    /// Whether a connection is the one that speaks for a member: an older one may end after it.
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

impl Service for AwareStore {
    fn opened(&mut self, conn: ConnId, _: SocketAddr, _: Now, _: &mut Outbox) {
        self.connections.insert(conn, Connection::default());
    }

    fn request(&mut self, conn: ConnId, request: Request, now: Now, out: &mut Outbox) -> Result<(), Refused> {
        let result = self.dispatch(conn, request, now, out);
        self.settle(now, out);
        result
    }

    fn closed(&mut self, conn: ConnId, now: Now, out: &mut Outbox) {
        for (run, id) in self.members_of(&[conn]) {
            if self.speaks_for(conn, &run, &id) {
                let cause = Cause::new(Reason::ConnectionClosed, "its connection closed");
                self.feed(&run, Event::Gone { id, cause }, now, out);
            }
        }
        self.forget_connection(conn, now, out);
        self.settle(now, out);
    }

    fn tick(&mut self, now: Now, out: &mut Outbox) {
        self.ticked = now;
        // A connection that waits for our answer has nothing to say.
        let owed: HashSet<ConnId> = self.runs.values().flat_map(Run::owed).collect();
        let paused = self.withheld_until > 0;
        let waits = |conn: &ConnId| paused || owed.contains(conn) || self.keyspace.waiting_for(*conn).is_some();
        let waiting: Vec<ConnId> = self
            .connections
            .iter()
            .filter(|(conn, connection)| connection.pod.is_none() && connection.node.is_some() && waits(conn))
            .map(|(conn, _)| *conn)
            .collect();
        for (run, id) in self.members_of(&waiting) {
            self.feed(&run, Event::Heard { id }, now, out);
        }
        let runs: Vec<RunId> = self.runs.keys().cloned().collect();
        for run in runs {
            self.feed(&run, Event::Tick, now, out);
        }
        self.settle(now, out);
    }

    fn has_room(&self, _: ConnId) -> bool {
        self.recorder.has_room()
    }

    fn next_tick(&self) -> Option<Now> {
        let of_run = |run: &Run| {
            let pulse = run.machine.members().next().is_some().then_some(self.ticked + PULSE);
            [pulse, run.machine.next_deadline(), run.next_release()].into_iter().flatten().min()
        };
        self.runs.values().filter_map(of_run).min()
    }
}
