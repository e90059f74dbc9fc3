//! A start outside every world: the node starts workers first and joins when they are ready, so that no other node waits
//! for their start.
//!
//! Two kinds of nodes do that: one that comes to a job whose processes survive changes, and one that lost its workers
//! there. Meanwhile the node watches the run, fencing and the signals.

use std::time::Duration;

use tokio::time::Instant;

use super::launch_end::{LaunchEnd, LaunchError};
use super::local_group::LocalGroup;
use super::node_state::NodeState;
use super::{Launcher, NextStep, reports};

/// New workers have this many times the `change_timeout` to be ready for a world.
const START_FACTOR: u32 = 30;

/// What became of workers outside a world.
pub(super) enum OutsideOutcome {
    /// All are ready for a world.
    Ready,
    /// All have succeeded: there is nothing left to do.
    Finished,
    /// One has failed.
    Failed,
    /// Some have succeeded, so that the node lacks workers for a world; or they take too long.
    Incomplete,
    /// They do not connect to the world socket: their program does not know of it, and needs a rank at its start.
    NotOptedIn,
    End(LaunchEnd),
}

impl Launcher<'_> {
    /// Starts workers outside every world. Their predecessors lived for `lived`.
    pub(super) async fn start_outside(&mut self, lived: Duration) -> Result<NextStep, LaunchError> {
        self.membership.stand_aside();
        let delay = self.restarts.delay(lived);
        if let Some(end) = self.end_within(delay).await {
            return Ok(NextStep::End(end));
        }
        let mut group = LocalGroup::start_outside(self.launch, &self.restart_count(), self.incarnations.next())?;
        let outcome = self.await_ready(&mut group).await;
        Ok(self.handle_outside_outcome(group, outcome).await)
    }

    /// Decides what follows for workers that wait for a world.
    pub(super) async fn handle_outside_outcome(&mut self, mut group: LocalGroup, outcome: OutsideOutcome) -> NextStep {
        match outcome {
            OutsideOutcome::Ready => NextStep::AwaitWorld(Some(Box::new(group))),
            OutsideOutcome::Finished => {
                self.membership.report(reports::all_ended(self.launch, &group));
                self.membership.stand_aside();
                self.end_group(&mut group).await;
                NextStep::AwaitClose
            }
            OutsideOutcome::Failed => self.handle_failure(group).await,
            OutsideOutcome::Incomplete => {
                tracing::warn!("not all workers are ready for a world; restarts all of them");
                self.handle_failure(group).await
            }
            OutsideOutcome::NotOptedIn => {
                tracing::warn!("its workers do not connect to the world socket; restarts them inside the next world");
                self.end_group(&mut group).await;
                self.membership.report(reports::all_ended(self.launch, &group));
                NextStep::AwaitWorld(None)
            }
            OutsideOutcome::End(end) => {
                self.give_up(Some(Box::new(group)), &end).await;
                NextStep::End(end)
            }
        }
    }

    /// Waits until workers that are in no world are ready for one.
    async fn await_ready(&mut self, group: &mut LocalGroup) -> OutsideOutcome {
        let deadline = Instant::now() + self.launch.change_timeout * START_FACTOR;
        loop {
            let complete = group.workers.exits().is_empty();
            if complete && group.socket.all_ready(self.launch.processes) {
                return OutsideOutcome::Ready;
            }
            if !complete && group.workers.running() > 0 && group.all_running_are_ready(self.launch.processes) {
                return OutsideOutcome::Incomplete;
            }
            tokio::select! {
                exit = group.workers.next_exit() => match exit {
                    Some(exit) if exit.outcome.is_success() => {}
                    // It may have failed because it has no rank.
                    Some(_) if !self.has_worked && !group.socket.has_any_connected() => {
                        return OutsideOutcome::NotOptedIn;
                    }
                    Some(_) => return OutsideOutcome::Failed,
                    None => return OutsideOutcome::Finished,
                },
                () = group.socket.changed() => {}
                state = self.membership.next_state() => if let Some(end) = end_of(state) {
                    return OutsideOutcome::End(end);
                },
                () = tokio::time::sleep_until(deadline) => {
                    let opted_in = group.socket.all_connected(self.launch.processes);
                    return if opted_in { OutsideOutcome::Incomplete } else { OutsideOutcome::NotOptedIn };
                }
                signal = self.signals.until_first() => return OutsideOutcome::End(LaunchEnd::Signal(signal)),
            }
        }
    }

    /// The end of the launch, if it comes within this time.
    async fn end_within(&mut self, time: Duration) -> Option<LaunchEnd> {
        let deadline = Instant::now() + time;
        loop {
            tokio::select! {
                state = self.membership.next_state() => if let Some(end) = end_of(state) {
                    return Some(end);
                },
                signal = self.signals.until_first() => return Some(LaunchEnd::Signal(signal)),
                () = tokio::time::sleep_until(deadline) => return None,
            }
        }
    }
}

/// The outcome for a group of which at least one worker has ended while it was kept for a world.
pub(super) fn outcome_of_exits(group: &LocalGroup) -> OutsideOutcome {
    let exits = group.workers.exits();
    if exits.iter().any(|exit| !exit.outcome.is_success()) {
        OutsideOutcome::Failed
    } else if group.workers.running() == 0 {
        OutsideOutcome::Finished
    } else {
        OutsideOutcome::Incomplete
    }
}

/// Whether a state ends a node that is in no world and wants none for the moment.
fn end_of(state: NodeState) -> Option<LaunchEnd> {
    match state {
        NodeState::Closed(cause) => Some(LaunchEnd::closed(cause)),
        NodeState::Rejected(rejection) => Some(rejection.into()),
        // A remnant of the world that the node left.
        NodeState::Waiting { .. } | NodeState::InWorld(_) | NodeState::Restart { .. } => None,
    }
}
