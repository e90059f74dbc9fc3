//! Requests of TCPStore clients: requests about the state of a run go to its rendezvous, all others to the keyspace.

use std::sync::Arc;

use bytes::Bytes;
use flexor_engine::rendezvous::{Cause, Event, MemberId, MemberState, Processes, Runs};
use flexor_model::Reason;

use super::facts::RunId;
use super::intent::{Intent, MembershipIntent};
use super::view::member_of;
use super::{ClockReading, RendezvousStore, lost_peers, run_key};
use crate::codec::{Reply, Request};
use crate::service::{ConnId, Now, Outbox, Refused, Service};
use crate::state::{self, RendezvousState};

/// The effect of an agent's write on its membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MembershipAction {
    Join,
    /// Join and replace a member of the same name.
    Replace,
    Leave,
    Heartbeat,
}

impl RendezvousStore {
    /// Serves a request. The owner then journals the facts and calls [`RendezvousStore::answer`].
    pub fn request(
        &mut self,
        conn: ConnId,
        request: Request,
        runs: &mut Runs,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        if self.is_plain {
            return self.keyspace.request(conn, request, now, out);
        }
        self.heartbeat(&[conn], runs, now, out);
        match request {
            Request::CompareSet { key, expected, desired } if writes_state(runs, &key, &desired) => {
                self.compare_set(conn, &key, (&expected, &desired), runs, now, out)
            }
            Request::Get { key } if run_at(runs, &key).is_some() => {
                let run = run_at(runs, &key).unwrap_or_default();
                self.owe(conn, &run, runs, now);
                Ok(())
            }
            Request::Set { key, .. }
            | Request::Append { key, .. }
            | Request::Add { key, .. }
            | Request::DeleteKey { key }
            | Request::Barrier { key, .. }
            | Request::QueuePush { key, .. }
                if run_at(runs, &key).is_some() =>
            {
                Err(refused("the state of a rendezvous can only be written with compare-and-set"))
            }
            Request::MultiSet { pairs } if pairs.iter().any(|(key, _)| run_at(runs, key).is_some()) => {
                Err(refused("the state of a rendezvous can only be written with compare-and-set"))
            }
            Request::MultiGet { keys } if keys.iter().any(|key| run_at(runs, key).is_some()) => {
                Err(refused("the state of a rendezvous can only be read by itself"))
            }
            Request::Add { ref key, .. } => {
                let key = key.clone();
                self.keyspace.request(conn, request, now, out)?;
                self.note_exit(conn, &key, runs, out);
                Ok(())
            }
            Request::Wait { ref keys } => {
                let keys = keys.clone();
                self.keyspace.request(conn, request, now, out)?;
                // An agent that waits at the exit barrier has counted itself in, perhaps with an earlier master.
                keys.iter().for_each(|key| self.note_exit(conn, key, runs, out));
                Ok(())
            }
            other => self.keyspace.request(conn, other, now, out),
        }
    }

    fn compare_set(
        &mut self,
        conn: ConnId,
        key: &Bytes,
        (expected, desired): (&[u8], &[u8]),
        runs: &mut Runs,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), Refused> {
        let name = run_key::run_of(key).ok_or_else(|| refused("the name of a run must be UTF-8"))?;
        let run: RunId = name.into();
        if expected.is_empty() && desired == state::SENTINEL {
            open_run(runs, &run)?;
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
        let last_value = connection.and_then(|connection| connection.last_value.as_ref());
        let expected = match last_value.and_then(|value| value.own_state_in(expected)) {
            Some(state) => state.clone(),
            None => read(expected)?,
        };
        open_run(runs, &run)?;
        if self.keyspace.get(key).is_none_or(|value| value != state::SENTINEL) {
            self.keyspace.set(key.clone(), Bytes::from_static(state::SENTINEL), out);
        }
        let known = self.connections.get(&conn).and_then(|connection| connection.node.as_ref());
        let intent = Intent::read(known, &expected, &desired);
        self.carry_out(conn, &run, intent, runs, now, out);
        self.owe(conn, &run, runs, now);
        Ok(())
    }

    fn carry_out(&mut self, conn: ConnId, run: &RunId, intent: Intent, runs: &mut Runs, now: Now, out: &mut Outbox) {
        let wall = (self.wall_clock)();
        let connection = self.connections.entry(conn).or_default();
        connection.run = Some(Arc::clone(run));
        if let Some(clock) = intent.clock {
            connection.clock = Some(ClockReading { theirs: clock, wall, now });
        }
        let Some(node) = intent.node.clone() else {
            connection.sees_closed |= intent.close;
            return;
        };
        let is_first_write = connection.node.replace(node.clone()).is_none();
        let pod = connection.pod.clone();
        let id = member_of(&node);
        let action = action_of(runs, run, &id, &intent, is_first_write);
        if action == MembershipAction::Replace {
            let cause = Cause::new(Reason::NodeReplaced, "another launcher came under its name");
            self.apply(runs, run, Event::Lost { id: id.clone(), cause }, now, out);
        }
        self.runs.entry(Arc::clone(run)).or_default().connections.insert(id.clone(), conn);
        if let Some(pod) = pod {
            runs.set_pod(run, id.clone(), pod);
        }
        let event = match action {
            MembershipAction::Join | MembershipAction::Replace => {
                Event::Join { id: id.clone(), processes: Processes::default() }
            }
            MembershipAction::Leave => Event::Leave { id: id.clone() },
            MembershipAction::Heartbeat => Event::Heartbeat { id: id.clone() },
        };
        self.apply(runs, run, event, now, out);
        if intent.close {
            let event = self.closing_event(run, id);
            self.apply(runs, run, event, now, out);
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.sees_closed = true;
            }
        }
    }

    /// The event of an agent that closes the run. An agent that ends successfully passes the exit barrier first, together
    /// with all others. Any other agent has given up because of its own node, which is then lost.
    fn closing_event(&self, run: &RunId, id: MemberId) -> Event {
        let has_succeeded = self.runs.get(run).is_some_and(|run| run.exits.members.contains(&id));
        if has_succeeded {
            return Event::Close { by: id };
        }
        tracing::warn!(
            run = %run, node = %id,
            "its launcher gave up; does its command line have its own --max-restarts or --rdzv-conf? Leave them out: \
             flexor sets PET_MAX_RESTARTS and PET_RDZV_CONF"
        );
        let cause = Cause::new(Reason::LauncherGaveUp, "its launcher gave up and wanted to close the run");
        Event::Lost { id, cause }
    }

    fn owe(&mut self, conn: ConnId, run: &RunId, runs: &Runs, now: Now) {
        let member = self.connections.get(&conn).and_then(|connection| connection.node.as_ref()).map(member_of);
        let state = member.zip(runs.get(run)).and_then(|(member, machine)| machine.state_of(&member));
        self.runs.entry(Arc::clone(run)).or_default().owe(conn, state, now);
    }

    fn note_exit(&mut self, conn: ConnId, key: &[u8], runs: &Runs, out: &mut Outbox) {
        for (run, id) in self.members_of(&[conn]) {
            if let Some(clients) = self.runs.get_mut(&run)
                && let Some(machine) = runs.get(&run)
                && lost_peers::enter_exit_barrier(&run, &mut clients.exits, &id, key)
            {
                lost_peers::release_exit_barrier(&run, machine, &clients.exits, &mut self.keyspace, out);
            }
        }
    }
}

/// What an intent comes to at present. Agents leave the world before they join the next one. So a join of a member of the
/// world is either a repeated request that has succeeded since, or comes from a replacement: in a container every
/// launcher has the same process id.
fn action_of(runs: &Runs, run: &RunId, id: &MemberId, intent: &Intent, is_first_write: bool) -> MembershipAction {
    let machine = runs.get(run);
    let state = machine.and_then(|machine| machine.state_of(id));
    let round = machine.and_then(|machine| machine.world()).map(|world| world.round.0);
    match intent.membership {
        MembershipIntent::Leave => MembershipAction::Leave,
        MembershipIntent::Stay => MembershipAction::Heartbeat,
        MembershipIntent::Join if state == Some(MemberState::InWorld) && Some(intent.round) <= round => {
            MembershipAction::Heartbeat
        }
        MembershipIntent::Join if state.is_some() && state != Some(MemberState::Joined) && is_first_write => {
            MembershipAction::Replace
        }
        MembershipIntent::Join => MembershipAction::Join,
    }
}

/// Opens a run if it is missing.
pub(super) fn open_run(runs: &mut Runs, run: &RunId) -> Result<(), Refused> {
    if runs.open(run).map_err(|error| refused(error.to_string()))? {
        tracing::info!(run = %run, "a run begins");
    }
    Ok(())
}

/// Whether a compare-and-set is torchrun's write of a run's state: that of a known run, or the first of another one.
///
/// An agent begins a run with the sentinel; a master that has lost its journal sees a state first. A run that begins takes
/// its key over from a program that has written it. All other keys are the programs' own.
pub(super) fn writes_state(runs: &Runs, key: &[u8], desired: &[u8]) -> bool {
    let Some(run) = run_key::run_of(key) else { return false };
    let begins = || desired == state::SENTINEL || state::decode(desired).is_ok();
    runs.get(run).is_some() || (!run_key::is_of_known_round(runs, key) && begins())
}

/// The known run whose state a key holds.
pub(super) fn run_at(runs: &Runs, key: &[u8]) -> Option<RunId> {
    run_key::run_of(key).filter(|run| runs.get(run).is_some()).map(RunId::from)
}

fn refused(reason: impl Into<String>) -> Refused {
    Refused { reason: reason.into() }
}
