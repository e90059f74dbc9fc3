//! Watches the workers of a world, the world and the signals, whichever speaks first.

use tokio::time::Instant;

use super::crew::Crew;
use super::membership::Membership;
use super::outcome::Over;
use super::place::Place;
use super::{Launch, Signals, reports};

/// Workers that outlive a change have so many times longer to be in the next world than to leave the last one.
const TO_JOIN: u32 = 3;

/// What ends a world for this node.
pub(super) enum Event {
    /// Every worker has ended well.
    Finished,
    /// A worker has failed.
    Failed,
    /// The world changes, for this reason.
    MeetAgain(String),
    /// The workers have left the world by themselves, because their peers are gone.
    PeersGone,
    /// The workers did not come into the world that they were told.
    NotTaken,
    /// There is nothing more to do.
    Over(Over),
}

/// Waits for the end of a world. `joins` is the round that the workers were told, where they outlived a change for it.
/// The master hears of each worker that ends well while others run.
pub(super) async fn until_something_happens(
    crew: &mut Crew,
    launch: &Launch,
    joins: Option<u64>,
    membership: &mut Membership,
    signals: &mut Signals,
) -> Event {
    let mut joins = joins;
    let count = launch.processes;
    let deadline = Instant::now() + launch.change_within * TO_JOIN;
    loop {
        tokio::select! {
            exit = crew.group.next_exit() => match exit {
                Some(exit) if exit.outcome.is_success() => {
                    if crew.group.running() > 0 {
                        membership.report(reports::worker_finished(launch, crew, exit.local_rank));
                    }
                }
                Some(_) => return Event::Failed,
                None => return Event::Finished,
            },
            place = membership.changed() => match place {
                Place::Restart { cause, .. } => return Event::MeetAgain(cause),
                Place::Closed(cause) => return Event::Over(Over::closed(cause)),
                Place::Barred(bar) => return Event::Over(bar.into()),
                // It was taken out of the world.
                Place::Waiting { .. } => return Event::MeetAgain("this node is not in the world any more".to_owned()),
                // Nobody asked for another one here; its workers are in none that stands.
                Place::InWorld(_) => return Event::MeetAgain("this node is in a later world".to_owned()),
            },
            () = crew.socket.changed() => {
                crew.opted_in |= crew.socket.all_here(count);
                membership.outlives(crew.opted_in);
                crew.tell_latecomers();
                let told = joins;
                joins = joins.filter(|joins| !crew.socket.all_joined(count, *joins));
                if let (Some(round), None) = (told, joins) {
                    tracing::info!(round, "its workers have joined the world");
                }
                // Who was started in the world is in it; who was told it says when it is.
                crew.has_worked |= crew.opted_in && joins.is_none();
                if joins.is_none() && crew.socket.all_ready(count) && crew.socket.untold().is_empty() {
                    return Event::PeersGone;
                }
            }
            () = tokio::time::sleep_until(deadline), if joins.is_some() => return Event::NotTaken,
            signal = signals.until_first() => return Event::Over(Over::Signal(signal)),
        }
    }
}

/// Asks the workers to leave their world. Whether all did, and live.
pub(super) async fn all_leave(crew: &mut Crew, launch: &Launch, cause: &str, signals: &mut Signals) -> bool {
    let count = launch.processes;
    if !crew.socket.all_here(count) {
        return false;
    }
    crew.socket.ask_to_meet(cause);
    let deadline = Instant::now() + launch.change_within;
    while !crew.socket.all_ready(count) {
        tokio::select! {
            // One that ended well is missing, too: the node is in a world with all of them.
            _ = crew.group.next_exit() => return false,
            () = crew.socket.changed() => {}
            () = tokio::time::sleep_until(deadline) => return false,
            _ = signals.until_first() => return false,
        }
    }
    true
}
