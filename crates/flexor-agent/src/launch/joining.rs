//! Waiting for a world: first for a master, then for the others. What is waited for is told, and the run, other lives of
//! the node, the signals and workers that are kept for the next world are watched all the while.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::crew::Crew;
use super::outcome::Over;
use super::place::Place;
use super::words::Words;
use super::{Launcher, Then, outside};

impl Launcher<'_> {
    /// Waits for a master. Among processes that outlive changes the node's own start before it joins.
    pub(super) async fn arrive(&mut self) -> Then {
        let since = Instant::now();
        let mut words = Words::begin();
        loop {
            tokio::select! {
                met = self.membership.met() => return match met {
                    Ok(job) if job.outlives && !self.membership.is_closed() => Then::StartOutside(Duration::ZERO),
                    Ok(_) => Then::Join(None),
                    Err(bar) => Then::End(bar.into()),
                },
                () = sleep_until(words.due()) => words.say(self.membership.waits_for()),
                within = time_is_up(since, self.launch.join_within) => return Then::End(self.no_world(within)),
                signal = self.signals.until_first() => return Then::End(Over::Signal(signal)),
            }
        }
    }

    /// Waits for the next world that this node is in. Workers that are kept for it may end in the meantime.
    pub(super) async fn join(&mut self, mut kept: Option<Box<Crew>>) -> Then {
        let survives = kept.as_ref().is_some_and(|crew| crew.has_told());
        self.membership.join(survives);
        let (since, limit) = (Instant::now(), self.launch.join_within);
        let mut words = Words::begin();
        let over = loop {
            if let Some(crew) = kept.take_if(|crew| !crew.group.exits().is_empty()) {
                tracing::warn!("a worker ended while it waited for a world");
                let waited = outside::after_exit(&crew);
                return self.after_waiting(*crew, waited).await;
            }
            tokio::select! {
                place = self.membership.changed() => match place {
                    Place::InWorld(world) => return Then::Work(world, kept),
                    Place::Closed(cause) if !self.lives.any() => break Over::before(cause),
                    Place::Closed(cause) => break Over::closed(cause),
                    Place::Barred(bar) => break bar.into(),
                    // The world that it waited for has ended before this node was in it.
                    Place::Restart { .. } => self.membership.join(survives),
                    Place::Waiting { .. } => {}
                },
                () = sleep_until(words.due()) => words.say(self.membership.waits_for()),
                () = a_worker_ends(&mut kept) => {}
                within = time_is_up(since, limit) => break self.no_world(within),
                signal = self.signals.until_first() => break Over::Signal(signal),
            }
        };
        self.give_up(kept, &over).await;
        Then::End(over)
    }

    pub(super) fn no_world(&self, within: Duration) -> Over {
        Over::NoWorld { within, waited_for: self.membership.waits_for(), report: None }
    }
}

/// Until a worker that is kept has ended. For ever, where none is kept.
async fn a_worker_ends(kept: &mut Option<Box<Crew>>) {
    match kept {
        Some(crew) => drop(crew.group.next_exit().await),
        None => std::future::pending().await,
    }
}

/// Until a limit has passed, which it gives. For ever, where there is none.
async fn time_is_up(since: Instant, limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            sleep_until(since + limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}
