//! Watches a world from its node: the workers, the master's messages and the signals, until the world ends for the node.

use tokio::time::Instant;

use super::launch_end::LaunchEnd;
use super::local_group::LocalGroup;
use super::membership::Membership;
use super::node_state::NodeState;
use super::{Launch, Signals, reports};

/// Workers that survive a change have this many times the `change_timeout` to join the next world.
const JOIN_FACTOR: u32 = 3;

/// What ends a world for this node.
pub(super) enum WorldEvent {
    /// Every worker has succeeded.
    Finished,
    /// A worker has failed.
    Failed,
    /// The world changes for this cause.
    Rendezvous(String),
    /// The workers have left the world by themselves, because their peers are gone.
    PeersGone,
    /// The workers did not join the world that they were given.
    NotJoined,
    End(LaunchEnd),
}

/// Waits for the end of a world. `joining` is the round that surviving workers were given and have not joined yet.
///
/// The node reports each worker that succeeds while others run.
pub(super) async fn next_event(
    group: &mut LocalGroup,
    launch: &Launch,
    joining: Option<u64>,
    membership: &mut Membership,
    signals: &mut Signals,
) -> WorldEvent {
    let mut joining = joining;
    let count = launch.processes;
    let deadline = Instant::now() + launch.change_timeout * JOIN_FACTOR;
    loop {
        tokio::select! {
            exit = group.workers.next_exit() => match exit {
                Some(exit) if exit.outcome.is_success() => {
                    if group.workers.running() > 0 {
                        membership.report(reports::worker_finished(launch, group, exit.local_rank));
                    }
                }
                Some(_) => return WorldEvent::Failed,
                None => return WorldEvent::Finished,
            },
            state = membership.next_state() => match state {
                NodeState::Restart { cause, .. } => return WorldEvent::Rendezvous(cause),
                NodeState::Closed(cause) => return WorldEvent::End(LaunchEnd::closed(cause)),
                NodeState::Rejected(rejection) => return WorldEvent::End(rejection.into()),
                // The master took the node out of the world.
                NodeState::Waiting { .. } => {
                    return WorldEvent::Rendezvous("this node is not in the world any more".to_owned());
                }
                // The node did not ask for another world, and its workers are in one that has ended.
                NodeState::InWorld(_) => return WorldEvent::Rendezvous("this node is in a later world".to_owned()),
            },
            () = group.socket.changed() => {
                group.opted_in |= group.socket.all_connected(count);
                membership.set_survives_changes(group.opted_in);
                group.send_world_to_latecomers();
                let before = joining;
                joining = joining.filter(|round| !group.socket.all_joined(count, *round));
                if let (Some(round), None) = (before, joining) {
                    tracing::info!(round, "its workers have joined the world");
                }
                // A worker that was started in the world is in it. One that was sent a world says when it has joined.
                group.has_worked |= group.opted_in && joining.is_none();
                if joining.is_none() && group.socket.all_ready(count) && group.socket.without_world().is_empty() {
                    return WorldEvent::PeersGone;
                }
            }
            () = tokio::time::sleep_until(deadline), if joining.is_some() => return WorldEvent::NotJoined,
            signal = signals.until_first() => return WorldEvent::End(LaunchEnd::Signal(signal)),
        }
    }
}

/// Asks the workers to leave their world. Returns whether all left it and still run.
pub(super) async fn leave_world(group: &mut LocalGroup, launch: &Launch, cause: &str, signals: &mut Signals) -> bool {
    let count = launch.processes;
    if !group.socket.all_connected(count) {
        return false;
    }
    group.socket.request_rendezvous(cause);
    let deadline = Instant::now() + launch.change_timeout;
    while !group.socket.all_ready(count) {
        tokio::select! {
            // Even a worker that succeeded is missing: the node is in a world with all of its workers.
            _ = group.workers.next_exit() => return false,
            () = group.socket.changed() => {}
            () = tokio::time::sleep_until(deadline) => return false,
            _ = signals.until_first() => return false,
        }
    }
    true
}
