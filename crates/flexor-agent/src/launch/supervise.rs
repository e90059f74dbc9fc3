//! Watches the workers of a round, the world and the signals, whichever speaks first.

use super::membership::{Membership, Place};
use super::outcome::Over;
use super::{Signals, signal};
use crate::workers::WorkerGroup;

/// What ends a round for this node.
pub(super) enum Event {
    /// Every worker has ended well.
    Finished,
    /// A worker has failed.
    Failed,
    /// The world changes, for this reason.
    MeetAgain(String),
    /// There is nothing more to do.
    Over(Over),
}

pub(super) async fn until_something_happens(
    group: &mut WorkerGroup,
    membership: &mut Membership,
    signals: &mut Signals,
) -> Event {
    loop {
        tokio::select! {
            exit = group.next_exit() => match exit {
                Some(exit) if exit.outcome.is_success() => {}
                Some(_) => return Event::Failed,
                None => return Event::Finished,
            },
            place = membership.changed() => match place {
                Place::Restart { because, .. } => return Event::MeetAgain(because),
                Place::Closed(because) => return Event::Over(Over::closed(because)),
                Place::Fenced(because) => return Event::Over(Over::Fenced(because)),
                // It was taken out of the world while it could not be reached.
                Place::Waiting => return Event::MeetAgain("this node is not in the world any more".to_owned()),
                Place::InWorld(_) => {}
            },
            signal = signal(signals) => return Event::Over(Over::Signal(signal)),
        }
    }
}
