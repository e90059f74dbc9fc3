//! The coordination state of a job: the rendezvous of its runs, its keys, and the journal before both.
//!
//! The master keeps one [`JobState`] under one lock, so every request is atomic. It owns the [`Runs`]. The front ends
//! reach them here: the [`RendezvousStore`] borrows them to serve torchrun's requests, the native API and the controller's
//! feed apply events with [`JobState::apply`]. Every call ends in [`JobState::settle`], which journals all facts before it
//! publishes any result. There are no sockets and no clock in it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::rendezvous::{Cause, Event, Fact, MemberId, Rendezvous, RunId, Runs, Settings};
use flexor_model::{Reason, Round};
use flexor_store::codec::Request;
use flexor_store::keyspace::{Keyspace, Mutation};
use flexor_store::rendezvous_store::{
    Lsn, NamedNode, NoRecorder, OperationRecord, Recorded, Recorder, RendezvousStore, StoreFact, WallClock,
};
use flexor_store::service::{ConnId, Now, Outbox, Refused, Service};
use tokio::sync::watch;

use crate::run_status::{self, RunStatus};

/// The state has to be ticked at least this often while there are members.
const PULSE: Duration = Duration::from_secs(1);

/// The rendezvous, the store and the journal of a job.
pub struct JobState {
    runs: Runs,
    store: RendezvousStore,
    recorder: Box<dyn Recorder>,
    /// Runs whose last world or end is not durable yet, with the journal position that makes it durable.
    hidden_until: BTreeMap<RunId, Lsn>,
    /// How many times a hidden run became visible.
    revealed: u64,
    /// Replies that may not be sent before `withheld_until` is durable, because the journal did not take their facts.
    withheld: Vec<Outbox>,
    withheld_until: Lsn,
    /// Whether the journal had room after the last record. When it has room again, connections are read from again.
    had_room: bool,
    changes: watch::Sender<u64>,
    ticked: Now,
}

impl JobState {
    /// Creates an empty state that journals nothing. Each run gets these settings.
    pub fn new(settings: Settings, wall_clock: WallClock) -> Self {
        Self {
            runs: Runs::new(settings),
            store: RendezvousStore::new(wall_clock),
            recorder: Box::new(NoRecorder),
            hidden_until: BTreeMap::new(),
            revealed: 0,
            withheld: Vec::new(),
            withheld_until: 0,
            had_room: true,
            changes: watch::Sender::new(0),
            ticked: Duration::ZERO,
        }
    }

    /// Serves torchrun a plain TCPStore, which interprets no keys.
    #[must_use]
    pub fn with_plain_store(mut self) -> Self {
        self.store = self.store.plain();
        self
    }

    /// Journals all facts from here on.
    pub fn record_with(&mut self, recorder: Box<dyn Recorder>) {
        self.recorder = recorder;
    }

    /// The keys, for callers inside the process. Changes must be followed by [`JobState::settle`].
    pub fn keyspace_mut(&mut self) -> &mut Keyspace {
        self.store.keyspace_mut()
    }

    /// The keys.
    pub fn keyspace(&self) -> &Keyspace {
        self.store.keyspace()
    }

    /// The rendezvous of a run.
    pub fn rendezvous(&self, run: &str) -> Option<&Rendezvous> {
        self.runs.get(run)
    }

    /// Changes whenever nodes have to learn of a change: a world, the cause of a restart, the end of a run.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether the present world of a run may be published: whether a restarted master would know it too.
    pub fn is_visible(&self, run: &str) -> bool {
        self.hidden_until.get(run).is_none_or(|lsn| self.recorder.durable() >= *lsn)
    }

    /// The rank of a member that is in the world of a run.
    pub fn rank_of(&self, run: &str, id: &MemberId) -> Option<u32> {
        self.runs.rank_of(run, id)
    }

    /// Whether the journal takes more records.
    pub fn can_record(&self) -> bool {
        self.recorder.has_room()
    }

    /// Whether all replies are withheld, because the journal takes no records.
    pub fn is_paused(&self) -> bool {
        self.withheld_until > 0
    }

    /// The status of every run.
    pub fn status(&self) -> Vec<RunStatus> {
        // The controller's feed opens a run named like the job. It is not shown beside a run that has nodes.
        let is_used = |machine: &Rendezvous| machine.world().is_some() || machine.members().next().is_some();
        let any_used = self.runs.iter().any(|(_, machine)| is_used(machine));
        let shown = self.runs.iter().filter(|(_, machine)| !any_used || is_used(machine));
        shown.map(|(id, machine)| run_status::of_run(id, machine, |member| self.runs.pod_of(id, member))).collect()
    }

    /// Applies an event to a run. The run is opened if it is missing.
    pub fn apply(&mut self, run: &RunId, event: Event, now: Now, out: &mut Outbox) {
        if self.open_run(run) {
            self.apply_unsettled(run, event, now, out);
        }
        self.settle(now, out);
    }

    /// Sets the target number of nodes of all runs, and of `run` even before a node has joined it.
    pub fn expect(&mut self, run: &RunId, nodes: Option<u32>, now: Now, out: &mut Outbox) {
        self.runs.set_expected(nodes);
        self.apply_to_all(run, &Event::Expect { nodes }, now, out);
    }

    /// Opens every closed run again: the controller retries.
    pub fn reopen(&mut self, run: &RunId, now: Now, out: &mut Outbox) {
        self.apply_to_all(run, &Event::Reopen, now, out);
    }

    /// Drops all members with this name, on this host or in this pod. Returns how many there were.
    pub fn drop_node(&mut self, name: &str, detail: &str, now: Now, out: &mut Outbox) -> usize {
        let members = self.runs.members_named(name);
        for (run, id) in &members {
            self.store.close_connection_of(run, id, detail, out);
            let cause = Cause::new(Reason::PodGone, detail);
            self.apply_unsettled(run, Event::Lost { id: id.clone(), cause }, now, out);
        }
        self.settle(now, out);
        members.len()
    }

    /// The pods of members, as far as sidecars have reported them.
    pub fn pods_of_members(&self) -> BTreeSet<Arc<str>> {
        self.runs.pods()
    }

    /// Sets which pods are pending or running, including those whose nodes have joined.
    pub fn announce(&mut self, run: &RunId, pods: &BTreeSet<Arc<str>>, now: Now, out: &mut Outbox) {
        self.open_run(run);
        for id in self.runs.ids() {
            let missing = self.runs.announce(&id, pods);
            self.apply_unsettled(&id, Event::Announced { missing }, now, out);
        }
        self.settle(now, out);
    }

    /// Skips round numbers that an earlier master has used and this one does not know of. Otherwise a new round would find
    /// the keys of the old one, and nodes would take its world for the one that they have left.
    pub fn skip_rounds_through(&mut self, run: &RunId, round: Round) {
        if self.open_run(run) {
            self.runs.skip_rounds_through(run, round);
        }
    }

    /// Journals all facts, then sends the replies that are due and publishes changes.
    pub fn settle(&mut self, now: Now, out: &mut Outbox) {
        self.record();
        self.reveal_durable_worlds();
        let (hidden_until, durable) = (&self.hidden_until, self.recorder.durable());
        let is_visible = |run: &RunId| hidden_until.get(run).is_none_or(|lsn| durable >= *lsn);
        self.store.answer(&self.runs, is_visible, now, out);
        self.withhold(out);
        let changes = self.runs.changes() + self.revealed;
        self.changes.send_if_modified(|last| std::mem::replace(last, changes) != changes);
    }

    /// The journal has made more records durable: replies that wait for that can be sent.
    pub fn journal_advanced(&mut self, now: Now, out: &mut Outbox) {
        if !std::mem::replace(&mut self.had_room, self.recorder.has_room()) && self.had_room {
            self.store.resume_reading(out);
        }
        self.settle(now, out);
    }

    fn record(&mut self) {
        let decided = self.runs.take_facts().into_iter();
        let mut facts: Vec<StoreFact> = decided.map(|(run, fact)| StoreFact::Rendezvous { run, fact }).collect();
        facts.extend(self.store.take_facts());
        if facts.is_empty() {
            return;
        }
        let Recorded { lsn, kept } = self.recorder.record(&facts);
        self.had_room &= self.recorder.has_room();
        if !kept {
            self.withheld_until = self.withheld_until.max(lsn);
        }
        for fact in facts {
            if let StoreFact::Rendezvous { run, fact } = fact {
                run_status::log(&run, &fact);
                if matches!(fact, Fact::Completed { .. } | Fact::Closed { .. }) && lsn > self.recorder.durable() {
                    self.hidden_until.insert(run, lsn);
                }
            }
        }
    }

    fn reveal_durable_worlds(&mut self) {
        let durable = self.recorder.durable();
        let hidden = self.hidden_until.len();
        self.hidden_until.retain(|_, lsn| *lsn > durable);
        self.revealed += (hidden - self.hidden_until.len()) as u64;
    }

    /// Keeps back all replies while the journal takes no records, and sends them when it does again.
    fn withhold(&mut self, out: &mut Outbox) {
        if self.withheld_until == 0 {
            return;
        }
        if !out.is_empty() {
            self.withheld.push(std::mem::take(out));
        }
        if self.recorder.durable() < self.withheld_until {
            return;
        }
        self.withheld_until = 0;
        for mut withheld in std::mem::take(&mut self.withheld) {
            withheld.take_sent().into_iter().for_each(|(conn, bytes)| out.send_bytes(conn, bytes));
            withheld.take_closed().into_iter().for_each(|(conn, reason)| out.close(conn, reason));
        }
    }

    fn apply_unsettled(&mut self, run: &RunId, event: Event, now: Now, out: &mut Outbox) {
        let facts = self.runs.apply(run, event, now);
        self.store.observe(&self.runs, run, &facts, out);
    }

    /// Applies an event to all runs, and to `run` even before a node has joined it: a controller knows the job and not the
    /// names of its runs.
    fn apply_to_all(&mut self, run: &RunId, event: &Event, now: Now, out: &mut Outbox) {
        self.open_run(run);
        for run in self.runs.ids() {
            self.apply_unsettled(&run, event.clone(), now, out);
        }
        self.settle(now, out);
    }

    /// Opens a run if it is missing. Returns whether the run is open.
    fn open_run(&mut self, run: &RunId) -> bool {
        let opened = self.runs.open(run);
        if opened == Ok(true) {
            tracing::info!(run = %run, "a run begins");
        }
        opened.is_ok()
    }
}

/// Connections of sidecars.
impl JobState {
    /// Registers a connection that comes through a sidecar, with the node that it spoke for before.
    pub fn opened_through_sidecar(
        &mut self,
        conn: ConnId,
        pod: Arc<str>,
        named: Option<&NamedNode>,
        now: Now,
        out: &mut Outbox,
    ) {
        self.store.opened_through_sidecar(conn, pod, named, &mut self.runs, now, out);
        self.settle(now, out);
    }

    /// Carries out an operation of a sidecar at most once. Returns the changes that it made or read.
    pub fn request_of_sidecar(
        &mut self,
        conn: ConnId,
        request: Request,
        operation: OperationRecord,
        now: Now,
        out: &mut Outbox,
    ) -> Result<Vec<Mutation>, Refused> {
        let result = self.store.request_of_sidecar(conn, request, operation, &mut self.runs, now, out);
        self.settle(now, out);
        result
    }

    /// Whether an operation is older than the last completed one of its connection.
    pub fn is_superseded(&self, link: u64, connection: u64, number: u64) -> bool {
        self.store.is_superseded(link, connection, number)
    }

    /// The node that a connection speaks for, once it is known.
    pub fn node_of(&self, conn: ConnId) -> Option<NamedNode> {
        self.store.node_of(conn)
    }

    /// Renews the leases of the members of these connections.
    pub fn heartbeat(&mut self, conns: &[ConnId], now: Now, out: &mut Outbox) {
        self.store.heartbeat(conns, &mut self.runs, now, out);
        self.settle(now, out);
    }

    /// Forgets the connections of a sidecar whose own connection broke. Their members have a grace to reconnect.
    pub fn sidecar_lost(&mut self, conns: &[ConnId], now: Now, out: &mut Outbox) {
        self.store.sidecar_lost(conns, &mut self.runs, now, out);
        self.settle(now, out);
    }

    /// Takes over a change that a sidecar has kept, unless the store has a later one.
    pub fn restore_key(&mut self, mutation: Mutation, out: &mut Outbox) {
        self.store.restore_key(mutation, &mut self.runs, out);
        self.record();
    }

    /// Forgets the operations of sidecars that have been disconnected for too long to return.
    pub fn forget_old_operations(&mut self, live_links: &HashSet<u64>, now: Now) {
        self.store.forget_old_operations(live_links, now);
    }
}

/// Recovery from a journal.
impl JobState {
    /// Applies a journaled fact. To be called before any request.
    pub fn replay(&mut self, fact: StoreFact) {
        match fact {
            StoreFact::Key(mutation) => self.store.replay_key(mutation, &mut self.runs),
            StoreFact::Rendezvous { run, fact } => self.runs.replay(&run, &fact),
            StoreFact::Operation(operation) => self.store.replay_operation(operation),
        }
    }

    /// Takes the rendezvous of a run from a snapshot.
    pub fn restore_run(&mut self, run: RunId, machine: Rendezvous) {
        self.runs.insert(run, machine);
    }

    /// Starts after the replay: every member has the reconnect grace to send a heartbeat. Changes of keys from here on have
    /// sequence numbers above `first_seq`.
    pub fn resume(&mut self, first_seq: u64, now: Now) {
        self.runs.resume(now);
        self.store.resume(&self.runs, first_seq, now);
        self.ticked = now;
    }

    /// Forgets the state that is needed only while sidecars bring back changes that the journal has not seen.
    pub fn end_recovery(&mut self) {
        self.store.end_recovery();
    }

    /// The rendezvous of all runs, for a snapshot.
    pub fn machines(&self) -> impl Iterator<Item = (&RunId, &Rendezvous)> {
        self.runs.iter()
    }

    /// The operations of sidecars that must not be repeated, for a snapshot.
    pub fn operations(&self) -> impl Iterator<Item = OperationRecord> {
        self.store.operations()
    }
}

impl Service for JobState {
    fn opened(&mut self, conn: ConnId, _: SocketAddr, _: Now, _: &mut Outbox) {
        self.store.opened(conn);
    }

    fn request(&mut self, conn: ConnId, request: Request, now: Now, out: &mut Outbox) -> Result<(), Refused> {
        let result = self.store.request(conn, request, &mut self.runs, now, out);
        self.settle(now, out);
        result
    }

    fn closed(&mut self, conn: ConnId, now: Now, out: &mut Outbox) {
        self.store.closed(conn, &mut self.runs, now, out);
        self.settle(now, out);
    }

    fn tick(&mut self, now: Now, out: &mut Outbox) {
        self.ticked = now;
        self.store.renew_waiting_connections(self.withheld_until > 0, &mut self.runs, now, out);
        for run in self.runs.ids() {
            self.apply_unsettled(&run, Event::Tick, now, out);
        }
        self.settle(now, out);
    }

    fn has_room(&self, _: ConnId) -> bool {
        self.recorder.has_room()
    }

    fn next_tick(&self) -> Option<Now> {
        let of_run = |machine: &Rendezvous| {
            let pulse = machine.members().next().is_some().then_some(self.ticked + PULSE);
            [pulse, machine.next_deadline()].into_iter().flatten().min()
        };
        self.runs.iter().filter_map(|(_, machine)| of_run(machine)).chain(self.store.next_release()).min()
    }
}
