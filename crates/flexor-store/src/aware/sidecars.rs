//! Connections that come through a sidecar: they can be taken up again, and what was done over them is done once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flexor_engine::rendezvous::{Event, MemberId};
use flexor_model::Round;

use super::facts::{Origin, RunId, StoreFact};
use super::view::{desc_of, member_of};
use super::{AwareStore, ClockSeen, Connection, Done, NamedNode, run_key};
use crate::codec::Request;
use crate::keyspace::{Change, Mutation};
use crate::service::{ConnId, Now, Outbox, Refused, Service};
use crate::state::{SENTINEL, Stamp, Zone};

/// How long it is remembered what was done for a sidecar that is away.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// How long a sidecar has to come back after its connection broke.
const SIDECAR_GRACE: Duration = Duration::from_secs(1);

impl AwareStore {
    /// A connection that comes through a sidecar. `node` is who it spoke for before the sidecar lost its way to us.
    pub fn opened_through_sidecar(
        &mut self,
        conn: ConnId,
        pod: Arc<str>,
        named: Option<&NamedNode>,
        now: Now,
        out: &mut Outbox,
    ) {
        let node = named.map(|named| desc_of(&MemberId::new(named.name.as_str(), 0)));
        let clock = named.and_then(|named| self.clock_of(named, now));
        let id = node.as_ref().map(member_of);
        let run = id.as_ref().and_then(|id| self.runs.values().find(|run| run.machine.place_of(id).is_some()));
        let run = run.map(|run| Arc::clone(&run.id));
        let pod_name = Some(Arc::clone(&pod));
        let connection = Connection { run: run.clone(), node, pod: pod_name, clock, ..Connection::default() };
        self.connections.insert(conn, connection);
        if let (Some(run), Some(id)) = (run, id) {
            if let Some(run) = self.runs.get_mut(&run) {
                run.connections.insert(id.clone(), conn);
                run.pods.insert(id.clone(), pod);
            }
            self.feed(&run, Event::Heard { id }, now, out);
        }
        self.settle(now, out);
    }

    /// The clock of a node, as its sidecar beside it tells it.
    fn clock_of(&self, named: &NamedNode, now: Now) -> Option<ClockSeen> {
        let zone = if named.clock_is_naive { Zone::Unsaid } else { Zone::Utc };
        let theirs = Stamp::from_unix_micros(named.unix_us)?.in_zone(zone);
        Some(ClockSeen { theirs, wall: (self.wall_clock)(), now })
    }

    /// Carries out an operation of a sidecar and writes down that it was.
    pub fn request_of_sidecar(
        &mut self,
        conn: ConnId,
        request: Request,
        mut origin: Origin,
        now: Now,
        out: &mut Outbox,
    ) -> Result<Vec<Mutation>, Refused> {
        let number = origin.number;
        let stream = (origin.link, origin.connection);
        if let Some(done) = self.operations.get(&stream)
            && number == done.number
        {
            let reply = done.reply.clone();
            self.repeat(conn, request, reply, now, out)?;
            return Ok(Vec::new());
        }
        let is_change = changes_keys(&request);
        let read = match &request {
            Request::Get { key } => vec![key.clone()],
            Request::MultiGet { keys } => keys.clone(),
            _ => Vec::new(),
        };
        let mut sent = Outbox::default();
        let result = self.dispatch(conn, request, now, &mut sent);
        let changes = self.keyspace.take_mutations();
        let mut reply = Vec::new();
        for (to, bytes) in sent.take_sent() {
            if to == conn {
                reply.extend_from_slice(&bytes);
            }
            out.send_bytes(to, bytes);
        }
        sent.take_closed().into_iter().for_each(|(conn, reason)| out.close(conn, reason));
        // What the rendezvous changes along the way is not the operation's doing: that one may come again.
        if !changes.is_empty() && !is_change {
            self.pending.extend(changes.iter().cloned().map(StoreFact::Key));
        } else if !changes.is_empty() {
            origin.reply = reply.into();
            self.operations.insert(stream, Done { number, reply: origin.reply.clone(), at: now });
            self.pending.extend(changes.iter().cloned().map(StoreFact::Key));
            self.pending.push(StoreFact::Operation(origin));
        }
        self.settle(now, out);
        result?;
        let seen = read.iter().filter_map(|key| self.keyspace.mutation_of(key));
        Ok(changes.into_iter().chain(seen).collect())
    }

    /// An operation comes again that was done: it is answered as it was, or waits again where it had no answer yet.
    pub(super) fn repeat(
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
            // It is counted already: take it back before it counts itself in again.
            let back = Request::Add { key: key.clone(), delta: -1 };
            self.keyspace.request(conn, back, now, &mut Outbox::default())?;
            self.keyspace.request(conn, request, now, out)?;
        }
        self.settle(now, out);
        Ok(())
    }

    /// A sidecar gave a sign of life for its connections.
    pub fn heard(&mut self, conns: &[ConnId], now: Now, out: &mut Outbox) {
        for (run, id) in self.members_of(conns) {
            self.feed(&run, Event::Heard { id }, now, out);
        }
        self.settle(now, out);
    }

    /// The way to a sidecar broke. It has a moment to come back; its connections are gone for now.
    pub fn sidecar_lost(&mut self, conns: &[ConnId], now: Now, out: &mut Outbox) {
        for conn in conns {
            for (run, id) in self.members_of(&[*conn]) {
                if self.speaks_for(*conn, &run, &id) {
                    self.feed(&run, Event::ConnectionLost { id, grace: SIDECAR_GRACE }, now, out);
                }
            }
        }
        for conn in conns {
            self.forget_connection(*conn, now, out);
        }
        self.settle(now, out);
    }

    /// Takes over a change that a sidecar remembers; later ones win.
    pub fn restore_key(&mut self, mutation: Mutation, out: &mut Outbox) {
        self.know_run_of(&mutation);
        let is_state = Some(&mutation.key).filter(|key| self.run_at(key).is_some()).is_some();
        if is_state && mutation.change != Change::Set(Bytes::from_static(SENTINEL)) {
            return;
        }
        if let Some((run, round)) = run_key::round_of(&mutation.key) {
            self.skip_round(run, round);
        }
        if self.keyspace.restore(mutation.clone(), out) {
            self.pending.push(StoreFact::Key(mutation));
        }
        self.write_down();
    }

    /// A master whose journal was lost must not use the number of a round that was: its keys would be found full, and
    /// nodes would take its world for the one that they have left.
    pub fn skip_round(&mut self, run: &str, round: Round) {
        let run: RunId = run.into();
        if self.ensure_run(&run).is_ok()
            && let Some(run) = self.runs.get_mut(&run)
        {
            run.machine.rounds_after(round);
        }
    }

    /// Whether an operation is older than the last one of its connection that changed something: then it was done, and
    /// whoever asked has had the answer.
    pub fn is_long_done(&self, link: u64, connection: u64, number: u64) -> bool {
        self.operations.get(&(link, connection)).is_some_and(|done| number < done.number)
    }

    /// Forgets what was done for sidecars that have not been here for long: they would have come back by now.
    pub fn forget_old_operations(&mut self, live_links: &HashSet<u64>, now: Now) {
        self.operations.retain(|(link, _), done| live_links.contains(link) || now.saturating_sub(done.at) < REMEMBERED);
    }
}

/// Whether a request changes keys by itself, so that doing it twice would not be the same as doing it once.
fn changes_keys(request: &Request) -> bool {
    match request {
        Request::Set { .. }
        | Request::Add { .. }
        | Request::Append { .. }
        | Request::MultiSet { .. }
        | Request::DeleteKey { .. }
        | Request::QueuePush { .. }
        | Request::QueuePop { .. }
        | Request::Barrier { .. } => true,
        Request::CompareSet { key, .. } => !run_key::may_hold_state(key),
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
