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
mod session;
mod store;
mod supervise;
mod words;
mod world_socket;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flexor_store::sidecar::Upstream;
use nix::sys::signal::Signal;
use tokio::sync::watch;

use self::crew::Crew;
pub use self::limits::{Asked, Limits};
use self::lives::Lives;
use self::membership::Membership;
pub use self::outcome::{LaunchError, Over};
use self::place::{Place, World};
use self::restarts::Restarts;
use self::supervise::Event;
use crate::workers::{Ladder, RunLogs, Shim, WorkerExit};

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

/// Signals that end the launcher, as they come; the first is passed on to the workers, the second kills them.
pub type Signals = watch::Receiver<Option<Signal>>;

/// A node at work.
struct Launcher<'a> {
    launch: &'a mut Launch,
    membership: Membership,
    signals: Signals,
    lives: Lives,
    restarts: Restarts,
    /// The last world that the node was in.
    world: Option<World>,
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
    /// Waits for the others to finish, outside their world.
    Watch,
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
        let (lives, restarts) = (Lives::begin(), Restarts::default());
        Launcher { launch: self, membership, signals, lives, restarts, world: None }.run().await
    }
}

impl Launcher<'_> {
    async fn run(mut self) -> Result<Over, LaunchError> {
        let mut then = Ok(Then::Arrive);
        loop {
            then = match then {
                Ok(next) if self.is_told_to_end() && !matches!(next, Then::End(_)) => Ok(self.end_instead(next).await),
                Ok(Then::Arrive) => Ok(self.arrive().await),
                Ok(Then::Join(kept)) => Ok(self.join(kept).await),
                Ok(Then::Work(world, kept)) => self.work(world, kept).await,
                Ok(Then::StartOutside(lived)) => self.start_outside(lived).await,
                Ok(Then::Watch) => Ok(self.watch().await),
                Ok(Then::End(over)) => {
                    let report = self.membership.end(Some(&over)).await;
                    return Ok(over.with_report(report));
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
                crew.go_on(self.launch, &world).await?;
                *crew
            }
            None => Crew::begin(self.launch, &world, self.lives.next()).await?,
        };
        if self.world.is_none() {
            self.compare(&world);
        }
        let round = world.round;
        self.world = Some(world);
        self.restarts.have_worked();
        let (membership, signals) = (&mut self.membership, &mut self.signals);
        Ok(match supervise::until_something_happens(&mut crew, self.launch, joins, membership, signals).await {
            Event::Finished => {
                self.end(&mut crew).await;
                self.membership.report(reports::all_ended(self.launch, &crew));
                self.rest().await
            }
            Event::Failed => {
                self.end(&mut crew).await;
                self.after_failure(crew)
            }
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
                self.end(&mut crew).await;
                self.replace(&crew)
            }
            Event::MovedOn(next) => {
                tracing::info!(round, next = next.round, "is in a later world");
                self.end(&mut crew).await;
                self.membership.report(reports::all_ended(self.launch, &crew));
                Then::Work(next, None)
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
        self.end(&mut crew).await;
        let failed = |exit: &WorkerExit| !exit.ended && !exit.outcome.is_success();
        if crew.opted_in && crew.group.exits().iter().any(failed) {
            // Its peers had noticed before its end was seen here.
            return self.after_failure(crew);
        }
        self.membership.report(reports::all_ended(self.launch, &crew));
        Then::Join(None)
    }

    /// The workers of this node have done their work; others may still be at it.
    async fn rest(&mut self) -> Then {
        self.membership.finish();
        loop {
            tokio::select! {
                place = self.membership.changed() => match place {
                    Place::Closed(because) => return Then::End(Over::closed(because)),
                    Place::Barred(bar) => return Then::End(bar.into()),
                    Place::Restart { .. } => return Then::Join(None),
                    Place::InWorld(_) | Place::Waiting => {}
                },
                signal = signal(&mut self.signals) => return Then::End(Over::Signal(signal)),
            }
        }
    }

    /// Says what the master has another mind about than this node's command line.
    fn compare(&self, world: &World) {
        for unheeded in self.launch.asked.unheeded(&world.limits) {
            tracing::warn!("not heeded, because the master decides: {unheeded}");
        }
    }

    /// Whether a signal has told the launcher to end, also while something else was waited for.
    fn is_told_to_end(&self) -> bool {
        self.signals.borrow().is_some()
    }

    /// What was to be next is not.
    async fn end_instead(&mut self, next: Then) -> Then {
        let over = Over::Signal(signal(&mut self.signals).await);
        let crew = match next {
            Then::Join(kept) | Then::Work(_, kept) => kept,
            Then::Arrive | Then::StartOutside(_) | Then::Watch | Then::End(_) => None,
        };
        self.give_up(crew, &over).await;
        Then::End(over)
    }

    async fn give_up(&mut self, crew: Option<Box<Crew>>, over: &Over) {
        self.membership.begin_to_end();
        let Some(mut crew) = crew else { return };
        let mut ladder = self.ladder();
        if let Over::Signal(signal) = over {
            tracing::info!("{signal}: ends its workers; another signal kills them");
            ladder.signal = *signal;
        }
        crew.end(ladder, &mut self.signals).await;
        self.membership.report(reports::all_ended(self.launch, &crew));
    }

    async fn end(&mut self, crew: &mut Crew) {
        let ladder = self.ladder();
        crew.end(ladder, &mut self.signals).await;
    }

    fn ladder(&self) -> Ladder {
        Ladder { grace: self.launch.grace, ..Ladder::default() }
    }
}

/// The signal that ends the launcher.
async fn signal(signals: &mut Signals) -> Signal {
    match signals.wait_for(Option::is_some).await.ok().and_then(|signal| *signal) {
        Some(signal) => signal,
        // Nobody can send one any more.
        None => std::future::pending().await,
    }
}
