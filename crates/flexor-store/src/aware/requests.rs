//! What a request means: most are the keyspace's, those about the state of a run are the machine's.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flexor_engine::rendezvous::{Cause, Event, Fact, MemberId, Place, Processes, Rendezvous};
use flexor_model::Reason;

use super::facts::{RunId, StoreFact};
use super::intent::{Intent, Wish};
use super::run::Run;
use super::view::member_of;
use super::{AwareStore, ClockSeen, lost_peer, run_key, status};
use crate::codec::{Reply, Request};
use crate::service::{ConnId, Now, Outbox, Refused, Service};
use crate::state::{self, RendezvousState};

/// How many runs one store serves. A job has one; a few more are a user's experiments, many more are a mistake.
const MAX_RUNS: usize = 64;

/// What an agent's write comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Join,
    /// To join in place of a member of the same name.
    Succeed,
    Leave,
    Nothing,
}

impl AwareStore {
    pub(super) fn dispatch(
        &mut self,
        conn: ConnId,
        request: Request,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        if self.plain {
            return self.keyspace.request(conn, request, now, out);
        }
        self.hear(conn, now, out);
        match request {
            Request::CompareSet { key, expected, desired } if run_key::may_hold_state(&key) => {
                self.compare_set(conn, &key, &expected, &desired, now, out)
            }
            Request::Get { key } if self.run_at(&key).is_some() => {
                let run = self.run_at(&key).unwrap_or_default();
                self.owe(conn, &run, now);
                Ok(())
            }
            Request::Set { key, .. }
            | Request::Append { key, .. }
            | Request::Add { key, .. }
            | Request::DeleteKey { key }
            | Request::Barrier { key, .. }
            | Request::QueuePush { key, .. }
                if self.is_reserved(&key) =>
            {
                Err(refused("the state of a rendezvous can only be written with compare-and-set"))
            }
            Request::MultiSet { pairs } if pairs.iter().any(|(key, _)| self.is_reserved(key)) => {
                Err(refused("the state of a rendezvous can only be written with compare-and-set"))
            }
            Request::MultiGet { keys } if keys.iter().any(|key| self.is_reserved(key)) => {
                Err(refused("the state of a rendezvous can only be read by itself"))
            }
            Request::Add { ref key, .. } => {
                let key = key.clone();
                self.keyspace.request(conn, request, now, out)?;
                self.note_exit(conn, &key, out);
                Ok(())
            }
            Request::Wait { ref keys } => {
                let keys = keys.clone();
                self.keyspace.request(conn, request, now, out)?;
                // Who waits for the end has counted itself in, perhaps at a master before this one.
                keys.iter().for_each(|key| self.note_exit(conn, key, out));
                Ok(())
            }
            other => self.keyspace.request(conn, other, now, out),
        }
    }

    pub(super) fn compare_set(
        &mut self,
        conn: ConnId,
        key: &Bytes,
        expected: &[u8],
        desired: &[u8],
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        let name = run_key::run_of(key).ok_or_else(|| refused("the name of a run must be UTF-8"))?;
        let run: RunId = name.into();
        if expected.is_empty() && desired == state::SENTINEL {
            self.ensure_run(&run)?;
            self.keyspace.set(key.clone(), Bytes::from_static(state::SENTINEL), out);
            out.send(conn, Reply::Value(Bytes::from_static(state::SENTINEL)));
            return Ok(());
        }
        let read = |value: &[u8]| {
            if value.is_empty() || value == state::SENTINEL {
                return Ok(RendezvousState::default());
            }
            state::decode(value).map_err(|error| refused(format!("no state of a rendezvous: {error}")))
        };
        let desired = read(desired)?;
        let connection = self.connections.get(&conn);
        let shown = connection.and_then(|connection| connection.shown.as_ref());
        let expected = match shown.and_then(|shown| shown.own_state_of(expected)) {
            Some(state) => state.clone(),
            None => read(expected)?,
        };
        self.ensure_run(&run)?;
        if self.keyspace.get(key).is_none() {
            self.keyspace.set(key.clone(), Bytes::from_static(state::SENTINEL), out);
        }
        let known = self.connections.get(&conn).and_then(|connection| connection.node.as_ref());
        let intent = Intent::read(known, &expected, &desired);
        self.take_in(conn, &run, intent, now, out);
        self.owe(conn, &run, now);
        Ok(())
    }

    pub(super) fn take_in(&mut self, conn: ConnId, run: &RunId, intent: Intent, now: Now, out: &mut Outbox) {
        let wall = (self.wall_clock)();
        let connection = self.connections.entry(conn).or_default();
        connection.run = Some(Arc::clone(run));
        if let Some(clock) = intent.clock {
            connection.clock = Some(ClockSeen { theirs: clock, wall, now });
        }
        let Some(node) = intent.node.clone() else {
            connection.sees_closed |= intent.close;
            return;
        };
        let first_word = connection.node.replace(node.clone()).is_none();
        let pod = connection.pod.clone();
        let id = member_of(&node);
        let wish = self.what_it_means(run, &id, &intent, first_word);
        if wish == Meaning::Succeed {
            let cause = Cause::new(Reason::NodeReplaced, "another launcher came under its name");
            self.feed(run, Event::Gone { id: id.clone(), cause }, now, out);
        }
        if let Some(run) = self.runs.get_mut(run) {
            run.connections.insert(id.clone(), conn);
            if let Some(pod) = pod {
                run.pods.insert(id.clone(), pod);
            }
        }
        match wish {
            Meaning::Join | Meaning::Succeed => {
                self.feed(run, Event::Join { id: id.clone(), processes: Processes::default() }, now, out);
            }
            Meaning::Leave => self.feed(run, Event::Leave { id: id.clone() }, now, out),
            Meaning::Nothing => self.feed(run, Event::Heard { id: id.clone() }, now, out),
        }
        if intent.close {
            let event = self.end_of(run, id);
            self.feed(run, event, now, out);
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.sees_closed = true;
            }
        }
    }

    /// What a wish means by now. Agents leave the world before they join the next one, so a join of somebody who is in the
    /// world is either one that was sent again and has come true since, or that of a successor: in a container every
    /// launcher has the same process id.
    fn what_it_means(&self, run: &RunId, id: &MemberId, intent: &Intent, first_word: bool) -> Meaning {
        let machine = self.runs.get(run).map(|run| &run.machine);
        let place = machine.and_then(|machine| machine.place_of(id));
        let round = machine.and_then(|machine| machine.world()).map(|world| world.round.0);
        match intent.wish {
            Wish::Leave => Meaning::Leave,
            Wish::Nothing => Meaning::Nothing,
            Wish::Join if place == Some(Place::World) && Some(intent.round) <= round => Meaning::Nothing,
            Wish::Join if place.is_some() && place != Some(Place::Joined) && first_word => Meaning::Succeed,
            Wish::Join => Meaning::Join,
        }
    }

    /// What it means that an agent closes the run. One that ends well comes to the exit barrier first, and then all have.
    /// One that does not has given up by itself, over whatever happened on its node: that is the loss of a node.
    fn end_of(&self, run: &RunId, id: MemberId) -> Event {
        let ended_well = self.runs.get(run).is_some_and(|run| run.exits.members.contains(&id));
        if ended_well {
            return Event::Close { by: id };
        }
        tracing::warn!(
            run = %run, node = %id,
            "its launcher gave up; does its command line have its own --max-restarts or --rdzv-conf? Leave them out: \
             flexor sets PET_MAX_RESTARTS and PET_RDZV_CONF"
        );
        let cause = Cause::new(Reason::LauncherGaveUp, "its launcher gave up and wanted to close the run");
        Event::Gone { id, cause }
    }

    /// Tells a machine something, and acts on what it decides.
    pub(super) fn feed(&mut self, id: &RunId, event: Event, now: Now, out: &mut Outbox) {
        let Some(run) = self.runs.get_mut(id) else { return };
        let facts = run.handle(event, now);
        for fact in &facts {
            status::log(run, fact);
            match fact {
                Fact::Dropped { id, .. } => {
                    run.connections.remove(id);
                    run.pods.remove(id);
                    lost_peer::fill_rank_exchange(run, id, &mut self.keyspace, out);
                    lost_peer::release_exit_barrier(run, &mut self.keyspace, out);
                }
                Fact::Completed { .. } => {
                    if let Some(world) = run.machine.world() {
                        lost_peer::forget_old_rounds(run, world, &mut self.keyspace);
                    }
                }
                Fact::Reopened { .. } => {
                    let of_run = self.connections.values_mut().filter(|connection| connection.run.as_ref() == Some(id));
                    of_run.for_each(|connection| connection.sees_closed = false);
                }
                Fact::Joined { .. }
                | Fact::Spared { .. }
                | Fact::Brings { .. }
                | Fact::Left { .. }
                | Fact::Finished { .. }
                | Fact::Closed { .. }
                | Fact::Expected { .. } => {}
            }
        }
        self.pending.extend(facts.into_iter().map(|fact| StoreFact::Rendezvous { run: Arc::clone(id), fact }));
    }

    pub(super) fn ensure_run(&mut self, run: &RunId) -> Result<(), Refused> {
        if self.runs.contains_key(run) {
            return Ok(());
        }
        if self.runs.len() >= MAX_RUNS {
            return Err(refused(format!("{MAX_RUNS} runs are served already; is --rdzv-id different in every pod?")));
        }
        tracing::info!(run = %run, "a run begins");
        let machine = Rendezvous::new(self.settings.clone());
        self.runs.insert(Arc::clone(run), Run::new(Arc::clone(run), machine));
        if self.expected.is_some() {
            self.feed(run, Event::Expect { nodes: self.expected }, Duration::ZERO, &mut Outbox::default());
        }
        Ok(())
    }

    /// Whether a key is, or may become, the state of a run: anything that begins like one and is no key of a round of a
    /// run that is known. An agent makes its run known before it writes anything else.
    fn is_reserved(&self, key: &[u8]) -> bool {
        let is_of_round = || self.runs.keys().any(|run| run_key::is_of_round(run, key));
        run_key::may_hold_state(key) && (self.run_at(key).is_some() || !is_of_round())
    }

    pub(super) fn run_at(&self, key: &[u8]) -> Option<RunId> {
        let name = run_key::run_of(key)?;
        self.runs.get(name).map(|run| Arc::clone(&run.id))
    }

    pub(super) fn owe(&mut self, conn: ConnId, run: &RunId, now: Now) {
        let member = self.connections.get(&conn).and_then(|connection| connection.node.as_ref()).map(member_of);
        if let Some(run) = self.runs.get_mut(run) {
            run.owe(conn, member.as_ref(), now);
        }
    }

    pub(super) fn note_exit(&mut self, conn: ConnId, key: &[u8], out: &mut Outbox) {
        for (run, id) in self.members_of(&[conn]) {
            if let Some(run) = self.runs.get_mut(&run)
                && lost_peer::counted_out(run, &id, key)
            {
                lost_peer::release_exit_barrier(run, &mut self.keyspace, out);
            }
        }
    }

    pub(super) fn hear(&mut self, conn: ConnId, now: Now, out: &mut Outbox) {
        for (run, id) in self.members_of(&[conn]) {
            self.feed(&run, Event::Heard { id }, now, out);
        }
    }
}

fn refused(reason: impl Into<String>) -> Refused {
    Refused { reason: reason.into() }
}
