//! Connections that come through a sidecar: they can be resumed, and an operation over them is carried out once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flexor_engine::rendezvous::{Event, MemberId, Runs};
use flexor_model::Round;

use super::facts::{OperationRecord, RunId, StoreFact};
use super::replay::restore_run_of;
use super::requests::{open_run, run_at, writes_state};
use super::view::{desc_of, member_of};
use super::{ClientConnection, ClockReading, CompletedOperation, NamedNode, RendezvousStore, run_key};
use crate::codec::Request;
use crate::keyspace::{Change, Mutation};
use crate::service::{ConnId, Now, Outbox, Refused, Service};
use crate::state::{SENTINEL, Stamp, Zone};

/// How long the operations of a disconnected sidecar are remembered.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// How long a sidecar has to reconnect after its connection broke.
const SIDECAR_GRACE: Duration = Duration::from_secs(1);

impl RendezvousStore {
    /// Registers a connection that comes through a sidecar. `named` is the node that the connection spoke for before the
    /// sidecar lost its connection to the master.
    pub fn opened_through_sidecar(
        &mut self,
        conn: ConnId,
        pod: Arc<str>,
        named: Option<&NamedNode>,
        runs: &mut Runs,
        now: Now,
        out: &mut Outbox,
    ) {
        let node = named.map(|named| desc_of(&MemberId::new(named.name.as_str(), 0)));
        let clock = named.and_then(|named| self.clock_of(named, now));
        let id = node.as_ref().map(member_of);
        let run = id.as_ref().and_then(|id| runs.iter().find(|(_, machine)| machine.state_of(id).is_some()));
        let run = run.map(|(run, _)| Arc::clone(run));
        let pod_name = Some(Arc::clone(&pod));
        let connection =
            ClientConnection { run: run.clone(), node, pod: pod_name, clock, ..ClientConnection::default() };
        self.connections.insert(conn, connection);
        if let (Some(run), Some(id)) = (run, id) {
            self.runs.entry(Arc::clone(&run)).or_default().connections.insert(id.clone(), conn);
            runs.set_pod(&run, id.clone(), pod);
            self.apply(runs, &run, Event::Heartbeat { id }, now, out);
        }
    }

    /// The clock of a node, as the sidecar beside it reports it.
    fn clock_of(&self, named: &NamedNode, now: Now) -> Option<ClockReading> {
        let zone = if named.clock_is_naive { Zone::Unsaid } else { Zone::Utc };
        let theirs = Stamp::from_unix_micros(named.unix_us)?.in_zone(zone);
        Some(ClockReading { theirs, wall: (self.wall_clock)(), now })
    }

    /// Carries out an operation of a sidecar and records it. Returns the changes that the operation made or read.
    pub fn request_of_sidecar(
        &mut self,
        conn: ConnId,
        request: Request,
        mut operation: OperationRecord,
        runs: &mut Runs,
        now: Now,
        out: &mut Outbox,
    ) -> Result<Vec<Mutation>, Refused> {
        let number = operation.number;
        let stream = (operation.link, operation.connection);
        if let Some(completed) = self.operations.get(&stream)
            && number == completed.number
        {
            let reply = completed.reply.clone();
            self.repeat(conn, request, reply, now, out)?;
            return Ok(Vec::new());
        }
        let is_change = changes_keys(runs, &request);
        let read = match &request {
            Request::Get { key } => vec![key.clone()],
            Request::MultiGet { keys } => keys.clone(),
            _ => Vec::new(),
        };
        let mut sent = Outbox::default();
        let result = self.request(conn, request, runs, now, &mut sent);
        let changes = self.keyspace.take_mutations();
        let mut reply = Vec::new();
        for (to, bytes) in sent.take_sent() {
            if to == conn {
                reply.extend_from_slice(&bytes);
            }
            out.send_bytes(to, bytes);
        }
        sent.take_closed().into_iter().for_each(|(conn, reason)| out.close(conn, reason));
        // Changes that only the rendezvous made are no result of the operation: it may be repeated.
        if !changes.is_empty() && !is_change {
            self.facts.extend(changes.iter().cloned().map(StoreFact::Key));
        } else if !changes.is_empty() {
            operation.reply = reply.into();
            let completed = CompletedOperation { number, reply: operation.reply.clone(), at: now };
            self.operations.insert(stream, completed);
            self.facts.extend(changes.iter().cloned().map(StoreFact::Key));
            self.facts.push(StoreFact::Operation(operation));
        }
        result?;
        let seen = read.iter().filter_map(|key| self.keyspace.mutation_of(key));
        Ok(changes.into_iter().chain(seen).collect())
    }

    /// Answers a repeated operation with its reply, or lets it wait again if it had no reply yet.
    fn repeat(
        &mut self,
        conn: ConnId,
        request: Request,
        reply: Bytes,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        if !reply.is_empty() {
            out.send_bytes(conn, reply);
        } else if let Request::Barrier { key, .. } = &request {
            // The barrier has counted it already: take that back before it is counted again.
            let back = Request::Add { key: key.clone(), delta: -1 };
            self.keyspace.request(conn, back, now, &mut Outbox::default())?;
            self.keyspace.request(conn, request, now, out)?;
        }
        Ok(())
    }

    /// Forgets the connections of a sidecar whose own connection broke. Their members have a grace to reconnect.
    pub fn sidecar_lost(&mut self, conns: &[ConnId], runs: &mut Runs, now: Now, out: &mut Outbox) {
        for conn in conns {
            for (run, id) in self.members_of(&[*conn]) {
                if self.speaks_for(*conn, &run, &id) {
                    self.apply(runs, &run, Event::ConnectionLost { id, grace: SIDECAR_GRACE }, now, out);
                }
            }
        }
        for conn in conns {
            self.forget_connection(*conn, now, out);
        }
    }

    /// Takes over a change that a sidecar has kept, unless the store has a later one.
    pub fn restore_key(&mut self, mutation: Mutation, runs: &mut Runs, out: &mut Outbox) {
        restore_run_of(&mutation, runs);
        let is_state = run_at(runs, &mutation.key).is_some();
        if is_state && mutation.change != Change::Set(Bytes::from_static(SENTINEL)) {
            return;
        }
        if let Some((run, round)) = run_key::round_of(&mutation.key)
            && (runs.get(run).is_some() || !run_key::is_of_known_round(runs, &mutation.key))
        {
            skip_rounds_through(runs, &run.into(), round);
        }
        if self.keyspace.restore(mutation.clone(), out) {
            self.facts.push(StoreFact::Key(mutation));
        }
    }

    /// Whether an operation is older than the last one of its connection that changed a key. Then it was completed, and
    /// the client has its reply.
    pub fn is_superseded(&self, link: u64, connection: u64, number: u64) -> bool {
        self.operations.get(&(link, connection)).is_some_and(|completed| number < completed.number)
    }

    /// Forgets the operations of sidecars that have been disconnected for too long to return.
    pub fn forget_old_operations(&mut self, live_links: &HashSet<u64>, now: Now) {
        let is_recent = |completed: &CompletedOperation| now.saturating_sub(completed.at) < REMEMBERED;
        self.operations.retain(|(link, _), completed| live_links.contains(link) || is_recent(completed));
    }
}

/// Skips round numbers that an earlier master has used and this one does not know of. Otherwise a new round would find the
/// keys of the old one, and nodes would take its world for the one that they have left.
fn skip_rounds_through(runs: &mut Runs, run: &RunId, round: Round) {
    if open_run(runs, run).is_ok() {
        runs.skip_rounds_through(run, round);
    }
}

/// Whether a request itself changes keys, so that repeating it would have another result.
fn changes_keys(runs: &Runs, request: &Request) -> bool {
    match request {
        Request::Set { .. }
        | Request::Add { .. }
        | Request::Append { .. }
        | Request::MultiSet { .. }
        | Request::DeleteKey { .. }
        | Request::QueuePush { .. }
        | Request::QueuePop { .. }
        | Request::Barrier { .. } => true,
        Request::CompareSet { key, desired, .. } => !writes_state(runs, key, desired),
        Request::Validate
        | Request::Get { .. }
        | Request::Check { .. }
        | Request::Wait { .. }
        | Request::GetNumKeys
        | Request::MultiGet { .. }
        | Request::CancelWait
        | Request::Ping { .. }
        | Request::QueueLen { .. }
        | Request::ListKeys => false,
    }
}
