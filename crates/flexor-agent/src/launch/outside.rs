//! Standing aside: a node that comes to others that can go on, or whose workers are lost among them, starts new ones
//! outside every world, and joins when they are ready, so that nobody waits for their start.
//!
//! The run, another life of the node and the signals are watched all the while.

use std::time::Duration;

use flexor_model::Reason;
use tokio::time::Instant;

use super::crew::Crew;
use super::outcome::{LaunchError, Over};
use super::place::{Place, World};
use super::{Launcher, Then, reports, signal};

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
                self.end(&mut crew).await;
                self.membership.report(reports::all_ended(self.launch, &crew));
                Then::Watch
            }
            Waited::Failed => {
                self.end(&mut crew).await;
                self.after_failure(crew)
            }
            Waited::Incomplete => {
                tracing::warn!("not all workers are ready for a world; all are started again");
                self.end(&mut crew).await;
                self.replace(&crew)
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

    /// A crew has ended that others go on without: the next one starts outside.
    pub(super) fn replace(&mut self, crew: &Crew) -> Then {
        self.membership.report(reports::all_ended(self.launch, crew));
        Then::StartOutside(crew.started.elapsed())
    }

    /// The program has failed, for the so-manieth time by this node's own count, in a crew that others go on without.
    pub(super) fn replace_failed(&mut self, crew: &Crew, failures: u32) -> Then {
        let max = self.max_restarts();
        if failures > max {
            let detail = format!("the program failed {failures} times on this node, {max} restarts are allowed");
            return Then::End(Over::closed(format!("{}: {detail}", Reason::RestartsExhausted)));
        }
        Then::StartOutside(crew.started.elapsed())
    }

    /// The workers here say that nothing is left to do, and others are at work: waits until the run is closed.
    pub(super) async fn watch(&mut self) -> Then {
        let others_are_enough = |world: &World| world.size > *world.limits.nodes.start();
        if !self.world.as_ref().is_some_and(others_are_enough) {
            // They would wait for this node, and nobody would close the run.
            return Then::Join(None);
        }
        tracing::info!("its workers have nothing left to do; waits for the others");
        self.membership.stand_aside();
        loop {
            tokio::select! {
                place = self.membership.changed() => if let Some(over) = over(place) {
                    return Then::End(over);
                },
                signal = signal(&mut self.signals) => return Then::End(Over::Signal(signal)),
            }
        }
    }

    /// Waits until workers that are in no world are ready for one.
    async fn wait_outside(&mut self, crew: &mut Crew) -> Waited {
        let deadline = Instant::now() + self.launch.change_within * TO_START;
        let has_worked = self.world.is_some();
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
                    Some(_) if !has_worked && !crew.socket.has_anybody_called() => return Waited::Unaware,
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
                signal = signal(&mut self.signals) => return Waited::Over(Over::Signal(signal)),
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
                signal = signal(&mut self.signals) => return Some(Over::Signal(signal)),
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
        Place::Closed(because) => Some(Over::closed(because)),
        Place::Barred(bar) => Some(bar.into()),
        // What is left of the world that it stands aside from.
        Place::Waiting | Place::InWorld(_) | Place::Restart { .. } => None,
    }
}
