//! A node of a job: joins the world, starts its workers, watches them, and meets again whenever the world changes.
//!
//! ```text
//! Membership ──world──▶ Launcher ──specs──▶ WorkerGroup
//!     ▲                    │ exits
//!   master ◀── finished, ended, failed ──┘
//! ```
//!
//! One task owns the truth ([`Launcher`]): it is joining, working, finished, or over. The master says who is in the
//! world and when to meet again; whether a failure of the program is forgiven is the master's to count, because a
//! failure restarts everybody.

mod belonging;
mod crew;
mod dialogue;
mod errands;
mod failing;
mod joining;
mod known;
mod limits;
mod lives;
mod membership;
mod outcome;
mod outside;
mod place;
mod reports;
mod restarts;
mod resting;
mod session;
mod signals;
mod store;
mod supervise;
mod words;
mod world_socket;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flexor_client::Upstream;

use self::crew::Crew;
pub use self::limits::{Asked, Limits};
use self::lives::Lives;
use self::membership::Membership;
pub use self::outcome::{LaunchError, Over};
use self::place::World;
use self::restarts::Restarts;
pub use self::signals::{SignalSender, Signals, signals};
use self::supervise::Event;
use crate::workers::{Ladder, RunLogs, Shim};

/// What a node launches, and where it belongs.
pub struct Launch {
    /// The job's master.
    pub master: Upstream,
    /// Where the master is, for the workers: `HOST:PORT`.
    pub master_address: String,
    /// The file with the token that they show it, if it wants one.
    pub token_file: Option<PathBuf>,
    /// The name of the run: the job's.
    pub run: String,
    /// The name of this node, and which life of it this is.
    pub node: (Arc<str>, u64),
    /// How many workers it starts.
    pub processes: u32,
    /// What each of them runs.
    pub program: OsString,
    /// With which arguments.
    pub args: Vec<OsString>,
    /// What they are called.
    pub role: String,
    /// What was asked for on this node; what counts is the master's.
    pub asked: Asked,
    /// How long workers have to end by themselves.
    pub grace: Duration,
    /// How long the node waits for a world; for ever where nothing is said.
    pub join_within: Option<Duration>,
    /// How long workers that outlive a change have to leave their world, and thrice as long to be in the next.
    pub change_within: Duration,
    /// Whether every worker sees one GPU, its own, and local rank 0.
    pub virtual_local_rank: bool,
    /// How a worker is started.
    pub shim: Shim,
    /// Where their output goes.
    pub logs: RunLogs,
}

/// A node at work.
struct Launcher<'a> {
    launch: &'a mut Launch,
    membership: Membership,
    signals: Signals,
    lives: Lives,
    restarts: Restarts,
    /// The node has been in a world.
    has_worked: bool,
}

/// What a node does next.
enum Then {
    /// Waits for a master.
    Arrive,
    /// Waits for a world, with these workers if they outlived the last.
    Join(Option<Box<Crew>>),
    /// Works in this one, with these workers or new ones.
    Work(World, Option<Box<Crew>>),
    /// Starts workers outside every world, after others that lived so long.
    StartOutside(Duration),
    /// Is done, and here if needed.
    Rest,
    /// Ends. Its workers are gone.
    End(Over),
}

impl Launch {
    /// Takes part in the job until it is over.
    ///
    /// # Errors
    ///
    /// The workers cannot be started, or their output has nowhere to go.
    pub async fn run(&mut self, signals: Signals) -> Result<Over, LaunchError> {
        if let Some(folder) = self.logs.folder_of_files() {
            tracing::info!("writes the output of its workers to files in {}", folder.display());
        }
        let membership = Membership::begin(self);
        let (lives, restarts) = (Lives::begin(), Restarts::begin());
        Launcher { launch: self, membership, signals, lives, restarts, has_worked: false }.run().await
    }
}

impl Launcher<'_> {
    async fn run(mut self) -> Result<Over, LaunchError> {
        let mut then = Ok(Then::Arrive);
        loop {
            then = match then {
                Ok(next) if self.signals.first().is_some() && !matches!(next, Then::End(_)) => {
                    // Also one that came while something else was waited for.
                    Ok(self.end_instead(next).await)
                }
                Ok(Then::Arrive) => Ok(self.arrive().await),
                Ok(Then::Join(kept)) => Ok(self.join(kept).await),
                Ok(Then::Work(world, kept)) => self.work(world, kept).await,
                Ok(Then::StartOutside(lived)) => self.start_outside(lived).await,
                Ok(Then::Rest) => Ok(self.rest().await),
                Ok(Then::End(mut over)) => {
                    if let Some(failure) = self.membership.end(Some(&over)).await {
                        failure.explain(&mut over);
                    }
                    return Ok(over);
                }
                Err(error) => {
                    self.membership.end(None).await;
                    return Err(error);
                }
            }
        }
    }

    /// Works in a world until it ends for this node, with the workers it has or with new ones.
    async fn work(&mut self, world: World, kept: Option<Box<Crew>>) -> Result<Then, LaunchError> {
        self.membership.stay();
        self.membership.outlives(kept.is_some());
        let joins = kept.is_some().then_some(world.round);
        let mut crew = match kept {
            Some(mut crew) => {
                if let Err(error) = crew.go_on(self.launch, &world).await {
                    self.end(&mut crew).await;
                    self.membership.report(reports::all_ended(self.launch, &crew));
                    return Err(error);
                }
                *crew
            }
            None => Crew::begin(self.launch, &world, self.lives.next()).await?,
        };
        if !std::mem::replace(&mut self.has_worked, true) {
            self.compare(&world);
        }
        let round = world.round;
        let (membership, signals) = (&mut self.membership, &mut self.signals);
        let event = supervise::until_something_happens(&mut crew, self.launch, joins, membership, signals).await;
        if crew.has_worked {
            self.restarts.have_worked();
        }
        Ok(match event {
            Event::Finished => {
                self.end(&mut crew).await;
                self.membership.report(reports::all_ended(self.launch, &crew));
                Then::Rest
            }
            Event::Failed => self.lose(crew).await,
            Event::MeetAgain(because) => {
                tracing::info!(round, %because, "meets again");
                self.meet_again(crew, &because).await
            }
            Event::PeersGone => {
                tracing::info!(round, "its workers have lost their peers; meets again");
                Then::Join(Some(Box::new(crew)))
            }
            Event::NotTaken => {
                tracing::warn!(round, "its workers did not take up the world that they were told; starts them again");
                self.lose(crew).await
            }
            Event::Over(over) => {
                self.give_up(Some(Box::new(crew)), &over).await;
                Then::End(over)
            }
        })
    }

    /// The world changes: workers that can go on in the next one are kept, others are ended.
    async fn meet_again(&mut self, mut crew: Crew, because: &str) -> Then {
        if supervise::all_leave(&mut crew, self.launch, because, &mut self.signals).await {
            return Then::Join(Some(Box::new(crew)));
        }
        if crew.opted_in && crew.group.first_failure().is_some() {
            // Its peers had noticed before its end was seen here.
            return self.lose(crew).await;
        }
        self.end(&mut crew).await;
        self.membership.report(reports::all_ended(self.launch, &crew));
        Then::Join(None)
    }

    /// Says what the master has another mind about than this node's command line.
    fn compare(&self, world: &World) {
        for unheeded in self.launch.asked.unheeded(&world.limits) {
            tracing::warn!("not heeded, because the master decides: {unheeded}");
        }
    }

    /// What was to be next is not.
    async fn end_instead(&mut self, next: Then) -> Then {
        let over = Over::Signal(self.signals.until_first().await);
        let crew = match next {
            Then::Join(kept) | Then::Work(_, kept) => kept,
            Then::Arrive | Then::StartOutside(_) | Then::Rest | Then::End(_) => None,
        };
        self.give_up(crew, &over).await;
        Then::End(over)
    }

    async fn give_up(&mut self, crew: Option<Box<Crew>>, over: &Over) {
        self.membership.begin_to_end();
        let Some(mut crew) = crew else { return };
        if let Over::Signal(signal) = over {
            tracing::info!("{signal}: ends its workers; another signal kills them");
        }
        self.end(&mut crew).await;
        self.membership.report(reports::all_ended(self.launch, &crew));
    }

    /// Ends workers: with the signal that ends the launcher, if that is why, or came before they were asked.
    async fn end(&mut self, crew: &mut Crew) {
        let asked = Ladder::default();
        let ladder = Ladder { grace: self.launch.grace, signal: self.signals.first().unwrap_or(asked.signal) };
        crew.end(ladder, &mut self.signals).await;
    }
}
