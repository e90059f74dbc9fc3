//! Standing aside: a node that comes to others that can go on, or whose workers are lost among them, starts new ones
//! outside every world, and joins when they are ready, so that nobody waits for their start.
//!
//! The run, another life of the node and the signals are watched all the while.

use std::time::Duration;

use tokio::time::Instant;

use super::crew::Crew;
use super::outcome::{LaunchError, Over};
use super::place::Place;
use super::{Launcher, Then, reports};

/// New workers have so many times longer to be ready for a world than others to leave theirs.
const TO_START: u32 = 30;

/// What has become of workers that wait outside.
pub(super) enum Waited {
    /// All are ready for a world.
    Ready,
    /// All have ended well: there is nothing left to do.
    Finished,
    /// One has failed.
    Failed,
    /// Some have ended well, so that the node will not have all that a world needs; or they take too long.
    Incomplete,
    /// They do not say what nobody outside a world can do without: their program knows nothing of the socket.
    Unaware,
    /// There is nothing more to do.
    Over(Over),
}

impl Launcher<'_> {
    /// Starts workers outside every world, after others that lived so long.
    pub(super) async fn start_outside(&mut self, lived: Duration) -> Result<Then, LaunchError> {
        self.membership.stand_aside();
        let pause = self.restarts.pause(lived);
        if let Some(over) = self.over_within(pause).await {
            return Ok(Then::End(over));
        }
        let mut crew = Crew::begin_outside(self.launch, &self.counted(), self.lives.next())?;
        Ok(match self.wait_outside(&mut crew).await {
            Waited::Ready => Then::Join(Some(Box::new(crew))),
            waited => self.after_waiting(crew, waited).await,
        })
    }

    /// Workers that waited for a world have ended, or will not be in one.
    pub(super) async fn after_waiting(&mut self, mut crew: Crew, waited: Waited) -> Then {
        match waited {
            Waited::Ready => Then::Join(Some(Box::new(crew))),
            Waited::Finished => {
                self.membership.report(reports::all_ended(self.launch, &crew));
                self.membership.stand_aside();
                self.end(&mut crew).await;
                Then::Rest
            }
            Waited::Failed => self.lose(crew).await,
            Waited::Incomplete => {
                tracing::warn!("not all workers are ready for a world; all are started again");
                self.lose(crew).await
            }
            Waited::Unaware => {
                tracing::warn!(
                    "its workers do not come to the world's socket; starts them again, inside the next world"
                );
                self.end(&mut crew).await;
                self.membership.report(reports::all_ended(self.launch, &crew));
                Then::Join(None)
            }
            Waited::Over(over) => {
                self.give_up(Some(Box::new(crew)), &over).await;
                Then::End(over)
            }
        }
    }

    /// Waits until workers that are in no world are ready for one.
    async fn wait_outside(&mut self, crew: &mut Crew) -> Waited {
        let deadline = Instant::now() + self.launch.change_within * TO_START;
        loop {
            let complete = crew.group.exits().is_empty();
            if complete && crew.socket.all_ready(self.launch.processes) {
                return Waited::Ready;
            }
            if !complete && crew.group.running() > 0 && crew.all_left_are_ready(self.launch.processes) {
                return Waited::Incomplete;
            }
            tokio::select! {
                exit = crew.group.next_exit() => match exit {
                    Some(exit) if exit.outcome.is_success() => {}
                    // It may have missed its rank.
                    Some(_) if !self.has_worked && !crew.socket.has_anybody_called() => return Waited::Unaware,
                    Some(_) => return Waited::Failed,
                    None => return Waited::Finished,
                },
                () = crew.socket.changed() => {}
                place = self.membership.changed() => if let Some(over) = over(place) {
                    return Waited::Over(over);
                },
                () = tokio::time::sleep_until(deadline) => {
                    let called = crew.socket.all_here(self.launch.processes);
                    return if called { Waited::Incomplete } else { Waited::Unaware };
                }
                signal = self.signals.until_first() => return Waited::Over(Over::Signal(signal)),
            }
        }
    }

    /// Why it is over, if it is within this time.
    async fn over_within(&mut self, time: Duration) -> Option<Over> {
        let deadline = Instant::now() + time;
        loop {
            tokio::select! {
                place = self.membership.changed() => if let Some(over) = over(place) {
                    return Some(over);
                },
                signal = self.signals.until_first() => return Some(Over::Signal(signal)),
                () = tokio::time::sleep_until(deadline) => return None,
            }
        }
    }
}

/// How what ended one of the workers that are kept for a world looks to their node.
pub(super) fn after_exit(crew: &Crew) -> Waited {
    let exits = crew.group.exits();
    if exits.iter().any(|exit| !exit.outcome.is_success()) {
        Waited::Failed
    } else if crew.group.running() == 0 {
        Waited::Finished
    } else {
        Waited::Incomplete
    }
}

/// What ends a node that is in no world and wants none for the moment.
fn over(place: Place) -> Option<Over> {
    match place {
        Place::Closed(cause) => Some(Over::closed(cause)),
        Place::Barred(bar) => Some(bar.into()),
        // What is left of the world that it stands aside from.
        Place::Waiting { .. } | Place::InWorld(_) | Place::Restart { .. } => None,
    }
}
