//! Watches the workers of a world, the world and the signals, whichever speaks first.

use std::time::Duration;

use tokio::time::Instant;

use super::membership::{Membership, Place, World};
use super::outcome::Over;
use super::round::Round;
use super::{Signals, signal};
use crate::workers::LocalRank;

/// How long workers that outlive a change have to be in the world that they were told.
const JOINED_WITHIN: Duration = Duration::from_secs(60);
/// How long they have to leave a world when they are asked to.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// What ends a world for this node.
pub(super) enum Event {
    /// One worker has ended well, and others run.
    WorkerFinished(LocalRank),
    /// Every worker has ended well.
    Finished,
    /// A worker has failed.
    Failed,
    /// The world changes, for this reason.
    MeetAgain(String),
    /// The workers have left the world by themselves, because their peers are gone.
    PeersGone,
    /// The node is in another world already: it was taken out while it could not be reached, and has joined again.
    MovedOn(World),
    /// There is nothing more to do.
    Over(Over),
}

/// Waits for the end of a world. `joins` is the round that the workers were told, where they outlived a change for it.
pub(super) async fn until_something_happens(
    round: &mut Round,
    count: u32,
    joins: Option<u64>,
    membership: &mut Membership,
    signals: &mut Signals,
) -> Event {
    let mut joins = joins;
    let deadline = Instant::now() + JOINED_WITHIN;
    loop {
        tokio::select! {
            exit = round.group.next_exit() => match exit {
                Some(exit) if exit.outcome.is_success() => return Event::WorkerFinished(exit.local_rank),
                Some(_) => return Event::Failed,
                None => return Event::Finished,
            },
            place = membership.changed() => match place {
                Place::Restart { because, .. } => return Event::MeetAgain(because),
                Place::Closed(because) => return Event::Over(Over::closed(because)),
                Place::Fenced(because) => return Event::Over(Over::Fenced(because)),
                // It was taken out of the world while it could not be reached.
                Place::Waiting => return Event::MeetAgain("this node is not in the world any more".to_owned()),
                Place::InWorld(world) => return Event::MovedOn(world),
            },
            () = round.socket.changed() => {
                round.opted_in |= round.socket.all_here(count);
                round.tell_latecomers();
                joins = joins.filter(|joins| !round.socket.all_joined(count, *joins));
                if joins.is_none() && round.socket.all_ready(count) && round.socket.untold().is_empty() {
                    return Event::PeersGone;
                }
            }
            () = tokio::time::sleep_until(deadline), if joins.is_some() => {
                return Event::MeetAgain("its workers did not take up the world that they were told".to_owned());
            }
            signal = signal(signals) => return Event::Over(Over::Signal(signal)),
        }
    }
}

/// Asks the workers to leave their world. Whether all did, and live.
pub(super) async fn all_leave(round: &mut Round, count: u32, because: &str, signals: &mut Signals) -> bool {
    if !round.socket.all_here(count) {
        return false;
    }
    round.socket.ask_to_meet(because);
    all_become_ready(round, count, READY_WITHIN, signals).await
}

/// Waits until all workers take part in no world. Whether all do, and live.
pub(super) async fn all_become_ready(round: &mut Round, count: u32, within: Duration, signals: &mut Signals) -> bool {
    let deadline = Instant::now() + within;
    while !round.socket.all_ready(count) {
        tokio::select! {
            exit = round.group.next_exit() => if exit.is_none_or(|exit| !exit.outcome.is_success()) {
                return false;
            },
            () = round.socket.changed() => {}
            () = tokio::time::sleep_until(deadline) => return false,
            _ = signal(signals) => return false,
        }
    }
    true
}
