//! The next action of torch's rendezvous handler for a given state. No sockets, no clock.
//!
//! The rules are those of torch 2.15 (`_RendezvousExitOp`, `_RendezvousJoinOp`, `_RendezvousKeepAliveOp` and their
//! actions). Only the deadline of a join is missing, because a race has its own.

use std::time::Duration;

use flexor_store::state::{NodeDesc, RendezvousState, Stamp};

/// A heartbeat is written when the last one is older.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Any handler removes a node without a heartbeat for this long.
const EXPIRY: Duration = Duration::from_secs(15);
/// How long a world of the smallest size waits for more.
const LAST_CALL: Duration = Duration::from_secs(30);

/// One handler, as the state contains it.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    pub(super) node: NodeDesc,
    /// The minimum and maximum size of the world, which are equal in all races.
    pub(super) nodes: usize,
}

/// The goal of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// To have left the last world.
    Exit,
    /// To be in the next one.
    Join,
    /// To be known to be alive.
    KeepAlive,
}

/// Its next action towards the goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Finish,
    /// Polls again after a second.
    LookAgain,
    /// Changes the state in this way and writes it.
    Write(Change),
    /// Gives up: the run is closed.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    KeepAlive,
    Join,
    WaitForNextRound,
    BecomeSpare,
    Leave,
    LeaveSpares,
    Complete,
}

impl Handler {
    pub(super) fn next(&self, aim: Goal, state: &RendezvousState, now: Stamp) -> Action {
        match aim {
            Goal::Exit if self.takes_part(state) => Action::Write(Change::Leave),
            Goal::Exit => Action::Finish,
            Goal::Join => self.next_to_join(state, now),
            Goal::KeepAlive if self.heartbeat_is_due(state, now) => Action::Write(Change::KeepAlive),
            Goal::KeepAlive => Action::Finish,
        }
    }

    fn next_to_join(&self, state: &RendezvousState, now: Stamp) -> Action {
        let waits = || {
            if self.heartbeat_is_due(state, now) { Action::Write(Change::KeepAlive) } else { Action::LookAgain }
        };
        let full = state.participants.len() >= self.nodes;
        let takes_part = self.takes_part(state);
        if state.closed {
            Action::Closed
        } else if state.redundancy_list.contains(&self.node) {
            if full { waits() } else { Action::Write(Change::LeaveSpares) }
        } else if state.complete {
            match (takes_part, state.wait_list.contains(&self.node)) {
                (true, _) => Action::Finish,
                (false, true) => waits(),
                (false, false) if full => Action::Write(Change::BecomeSpare),
                (false, false) => Action::Write(Change::WaitForNextRound),
            }
        } else if !takes_part {
            Action::Write(Change::Join)
        } else if full && state.deadline.is_some_and(|deadline| deadline < now) {
            Action::Write(Change::Complete)
        } else {
            waits()
        }
    }

    /// Makes a change in the state.
    pub(super) fn apply(&self, change: Change, state: &mut RendezvousState, now: Stamp) {
        match change {
            Change::KeepAlive => self.beat(state, now),
            Change::Join => {
                state.wait_list.remove(&self.node);
                state.participants.push((self.node.clone(), 0));
                self.beat(state, now);
                if state.participants.len() == self.nodes {
                    state.deadline = later(now, LAST_CALL);
                    complete(state);
                }
            }
            Change::WaitForNextRound => {
                state.wait_list.insert(self.node.clone());
                self.beat(state, now);
            }
            Change::BecomeSpare => {
                state.redundancy_list.insert(self.node.clone());
                self.beat(state, now);
            }
            Change::Leave => {
                state.participants.retain(|(node, _)| *node != self.node);
                state.last_heartbeats.retain(|(node, _)| *node != self.node);
                self.after_a_leave(state);
            }
            Change::LeaveSpares => {
                state.redundancy_list.remove(&self.node);
                state.last_heartbeats.retain(|(node, _)| *node != self.node);
            }
            Change::Complete => complete(state),
        }
    }

    /// Removes expired nodes, as every handler does with every state that it reads.
    pub(super) fn remove_expired(&self, state: &mut RendezvousState, now: Stamp) {
        let expired = |heartbeat: Stamp| age(heartbeat, now).is_some_and(|age| age > EXPIRY);
        if !state.last_heartbeats.iter().any(|(_, heartbeat)| expired(*heartbeat)) {
            return;
        }
        let (dead, alive) = state.last_heartbeats.drain(..).partition(|(_, heartbeat)| expired(*heartbeat));
        state.last_heartbeats = alive;
        let dead: std::collections::HashSet<NodeDesc> = Vec::into_iter(dead).map(|(node, _)| node).collect();
        let before = state.participants.len();
        state.participants.retain(|(node, _)| !dead.contains(node));
        state.wait_list.retain(|node| !dead.contains(node));
        state.redundancy_list.retain(|node| !dead.contains(node));
        if state.participants.len() < before {
            self.after_a_leave(state);
        }
    }

    /// Its rank in the world of the state.
    pub(super) fn rank(&self, state: &RendezvousState) -> Option<u64> {
        state.participants.iter().find(|(node, _)| *node == self.node).map(|(_, rank)| *rank)
    }

    fn takes_part(&self, state: &RendezvousState) -> bool {
        self.rank(state).is_some()
    }

    fn heartbeat_is_due(&self, state: &RendezvousState, now: Stamp) -> bool {
        let own = state.last_heartbeats.iter().find(|(node, _)| *node == self.node);
        own.and_then(|(_, heartbeat)| age(*heartbeat, now)).is_some_and(|age| age >= KEEP_ALIVE)
    }

    fn beat(&self, state: &mut RendezvousState, now: Stamp) {
        match state.last_heartbeats.iter_mut().find(|(node, _)| *node == self.node) {
            Some((_, heartbeat)) => *heartbeat = now,
            None => state.last_heartbeats.push((self.node.clone(), now)),
        }
    }

    fn after_a_leave(&self, state: &mut RendezvousState) {
        if !state.complete {
            if state.participants.len() < self.nodes {
                state.deadline = None;
            }
        } else if state.participants.is_empty() {
            state.complete = false;
            state.round += 1;
        }
    }
}

fn complete(state: &mut RendezvousState) {
    state.complete = true;
    state.deadline = None;
    let mut sorted: Vec<NodeDesc> = state.participants.iter().map(|(node, _)| node.clone()).collect();
    sorted.sort_unstable();
    for (node, rank) in &mut state.participants {
        *rank = sorted.binary_search(node).map_or(0, |place| place as u64);
    }
}

fn age(then: Stamp, now: Stamp) -> Option<Duration> {
    u64::try_from(now.unix_micros() - then.unix_micros()).ok().map(Duration::from_micros)
}

fn later(now: Stamp, by: Duration) -> Option<Stamp> {
    i64::try_from(by.as_micros()).ok().and_then(|by| Stamp::from_unix_micros(now.unix_micros() + by))
}

#[cfg(test)]
mod tests;
