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

mod crew;
mod dialogue;
mod errands;
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
mod world_socket;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flexor_store::sidecar::Upstream;
use nix::sys::signal::Signal;
use nix::unistd::gethostname;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use self::crew::Crew;
pub use self::limits::{Asked, Limits};
use self::lives::Lives;
use self::membership::Membership;
pub use self::outcome::{LaunchError, Over};
use self::place::{Place, World};
use self::restarts::Restarts;
use self::supervise::Event;
use crate::workers::{
    ERROR_FILE_VARIABLE, FailureReport, Ladder, RunLogs, Shim, WorkerExit, command_line, propagate, root_cause,
};

/// A node that waits so long for a world says so.
const SILENCE: Duration = Duration::from_secs(3);

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
        let membership = Membership::begin(self.master.clone(), self.node.clone(), self.processes);
        let (lives, restarts) = (Lives::begin(), Restarts::default());
        Launcher { launch: self, membership, signals, lives, restarts, world: None }.run().await
    }
}

impl Launcher<'_> {
    async fn run(mut self) -> Result<Over, LaunchError> {
        let mut then = Ok(Then::Join(None));
        loop {
            then = match then {
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

    /// Waits for the next world that this node is in. Workers that are kept for it may end in the meantime.
    async fn join(&mut self, mut kept: Option<Box<Crew>>) -> Then {
        let survives = kept.as_ref().is_some_and(|crew| crew.has_told());
        self.membership.join(survives);
        let since = Instant::now();
        let (silence, limit) = (since + SILENCE, self.launch.join_within);
        let mut told = false;
        let over = loop {
            if let Some(crew) = kept.take_if(|crew| !crew.group.exits().is_empty()) {
                tracing::warn!("a worker ended while it waited for a world");
                self.membership.stand_aside();
                let waited = outside::after_exit(&crew);
                return self.after_waiting(*crew, waited).await;
            }
            tokio::select! {
                place = self.membership.changed() => match place {
                    Place::InWorld(world) => return Then::Work(world, kept),
                    Place::Closed(because) if !self.lives.any() => break Over::before(because),
                    Place::Closed(because) => break Over::closed(because),
                    Place::Fenced(because) => break Over::Fenced(because),
                    // The world that it waited for has ended before this node was in it.
                    Place::Restart { .. } => self.membership.join(survives),
                    Place::Waiting => {}
                },
                () = sleep_until(silence), if !told => {
                    told = true;
                    tracing::info!("waits for other nodes");
                }
                () = a_worker_ends(&mut kept) => {}
                within = time_is_up(since, limit) => break Over::NoWorld(within),
                signal = signal(&mut self.signals) => break Over::Signal(signal),
            }
        };
        self.give_up(kept, &over).await;
        Then::End(over)
    }

    /// Works in a world until it ends for this node, with the workers it has or with new ones.
    async fn work(&mut self, world: World, kept: Option<Box<Crew>>) -> Result<Then, LaunchError> {
        self.membership.stay();
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

    /// A worker has failed, and all are ended. Among others that can go on without it the next ones start outside.
    fn after_failure(&mut self, crew: Crew) -> Then {
        self.tell_of_failure(&crew);
        if crew.opted_in { self.replace_failed(&crew) } else { Then::Join(None) }
    }

    /// The program has failed on this node: the master hears of what and why.
    fn tell_of_failure(&mut self, crew: &Crew) {
        let exits = crew.group.exits();
        let command = command_line(&self.launch.program, &self.launch.args);
        let host = gethostname().map_or_else(|_| self.launch.node.0.to_string(), |name| name.to_string_lossy().into());
        // The report names files in it.
        self.launch.logs.keep();
        if let Some(file) = std::env::var_os(ERROR_FILE_VARIABLE)
            && let Some(exit) = root_cause(exits)
            && let Err(error) = propagate(exit, file.as_ref())
        {
            tracing::warn!(?file, "the error file of the launcher cannot be written: {error}");
        }
        let Some(report) = FailureReport::new(command, host, exits.len(), exits) else {
            self.membership.report(reports::all_ended(self.launch, crew));
            return;
        };
        tracing::warn!("the program failed: {}", report.root_cause.message);
        self.membership.report(reports::all_ended_by_failure(self.launch, crew, &report));
        self.membership.report(reports::failure(&report));
        self.membership.failed(report);
    }

    /// The workers of this node have done their work; others may still be at it.
    async fn rest(&mut self) -> Then {
        self.membership.finish();
        loop {
            tokio::select! {
                place = self.membership.changed() => match place {
                    Place::Closed(because) => return Then::End(Over::closed(because)),
                    Place::Fenced(because) => return Then::End(Over::Fenced(because)),
                    Place::Restart { .. } => return Then::Join(None),
                    Place::InWorld(_) | Place::Waiting => {}
                },
                signal = signal(&mut self.signals) => return Then::End(Over::Signal(signal)),
            }
        }
    }

    /// Says what the master has another mind about than this node's command line.
    fn compare(&self, world: &World) {
        for unheeded in self.launch.asked.unheeded(&world.run, &world.limits) {
            tracing::warn!("not heeded, because the master decides: {unheeded}");
        }
    }

    async fn give_up(&mut self, crew: Option<Box<Crew>>, over: &Over) {
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

/// The signal that ends the launcher.
async fn signal(signals: &mut Signals) -> Signal {
    match signals.wait_for(Option::is_some).await.ok().and_then(|signal| *signal) {
        Some(signal) => signal,
        // Nobody can send one any more.
        None => std::future::pending().await,
    }
}
