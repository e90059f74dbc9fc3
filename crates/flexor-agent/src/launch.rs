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

mod membership;
mod outcome;
mod reports;
mod round;
mod store;
mod supervise;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use flexor_store::sidecar::Upstream;
use nix::sys::signal::Signal;
use tokio::sync::watch;

use self::membership::{Membership, Place, World};
pub use self::outcome::{LaunchError, Over};
use self::round::Round;
use self::supervise::Event;
use crate::workers::{ERROR_FILE_VARIABLE, FailureReport, Ladder, RunLogs, Shim, WorkerExit, propagate, root_cause};

/// What a node launches, and where it belongs.
pub struct Launch {
    /// The job's master.
    pub master: Upstream,
    /// Where the master is, for the workers: `HOST:PORT`.
    pub master_address: String,
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
    /// How many failures of the program are forgiven, for those who ask.
    pub max_restarts: u32,
    /// How long workers have to end by themselves.
    pub grace: Duration,
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
    /// How often its workers were started again because the program failed.
    restarts: u32,
    attempts: u32,
}

impl Launch {
    /// Takes part in the job until it is over.
    ///
    /// # Errors
    ///
    /// The workers cannot be started, or their output has nowhere to go.
    pub async fn run(&mut self, signals: Signals) -> Result<Over, LaunchError> {
        let membership = Membership::begin(self.master.clone(), self.node.clone(), self.processes);
        let launcher = Launcher { launch: self, membership, signals, restarts: 0, attempts: 0 };
        launcher.run().await
    }
}

impl Launcher<'_> {
    async fn run(mut self) -> Result<Over, LaunchError> {
        loop {
            let world = match self.join().await {
                Ok(world) => world,
                Err(over) => return self.leave(over).await,
            };
            match self.work(&world).await? {
                After::MeetAgain => {}
                After::Over(over) => return self.leave(over).await,
            }
        }
    }

    /// Waits for the next world that this node is in.
    async fn join(&mut self) -> Result<World, Over> {
        self.membership.join();
        loop {
            tokio::select! {
                place = self.membership.changed() => match place {
                    Place::InWorld(world) => return Ok(world),
                    Place::Closed(because) => return Err(Over::closed(because)),
                    Place::Fenced(because) => return Err(Over::Fenced(because)),
                    Place::Waiting | Place::Restart { .. } => {}
                },
                signal = signal(&mut self.signals) => return Err(Over::Signal(signal)),
            }
        }
    }

    /// Works in a world until it ends for this node.
    async fn work(&mut self, world: &World) -> Result<After, LaunchError> {
        let mut round = Round::begin(self.launch, world, self.restarts, self.attempts).await?;
        self.attempts += 1;
        let event = supervise::until_something_happens(&mut round.group, &mut self.membership, &mut self.signals).await;
        let ladder = Ladder { grace: self.launch.grace, ..Ladder::default() };
        match event {
            Event::Finished => {
                round.end(ladder, &mut self.signals).await;
                reports::finished(&self.membership, self.launch, world).await;
                Ok(self.wait_for_the_others().await)
            }
            Event::Failed => {
                round.end(ladder, &mut self.signals).await;
                let exits = round.group.exits().to_vec();
                self.failed(world, &exits).await;
                Ok(After::MeetAgain)
            }
            Event::MeetAgain(because) => {
                tracing::info!(round = world.round, %because, "meets again");
                round.end(ladder, &mut self.signals).await;
                reports::lost(&self.membership, self.launch, world).await;
                Ok(After::MeetAgain)
            }
            Event::Over(over) => {
                let signal = if let Over::Signal(signal) = &over { *signal } else { Signal::SIGTERM };
                round.end(Ladder { signal, ..ladder }, &mut self.signals).await;
                reports::lost(&self.membership, self.launch, world).await;
                Ok(After::Over(over))
            }
        }
    }

    /// The program has failed on this node: the master hears of what and why, and everybody meets again.
    async fn failed(&mut self, world: &World, exits: &[WorkerExit]) {
        let command = crate::workers::command_line(&self.launch.program, &self.launch.args);
        let host = nix::unistd::gethostname()
            .map_or_else(|_| self.launch.node.0.to_string(), |name| name.to_string_lossy().into_owned());
        self.restarts += 1;
        // The report names files in it.
        self.launch.logs.keep();
        if let Some(file) = std::env::var_os(ERROR_FILE_VARIABLE)
            && let Some(exit) = root_cause(exits)
            && let Err(error) = propagate(exit, file.as_ref())
        {
            tracing::warn!(?file, "the error file of the launcher cannot be written: {error}");
        }
        if let Some(report) = FailureReport::new(command, host, exits.len(), exits) {
            tracing::warn!(round = world.round, "the program failed: {}", report.root_cause.message);
            reports::failed(&self.membership, self.launch, world, &report).await;
            self.membership.failed(report);
        }
    }

    /// The workers of this node have done their work; others may still be at it.
    async fn wait_for_the_others(&mut self) -> After {
        self.membership.finish();
        loop {
            tokio::select! {
                place = self.membership.changed() => match place {
                    Place::Closed(because) => return After::Over(Over::closed(because)),
                    Place::Fenced(because) => return After::Over(Over::Fenced(because)),
                    Place::Restart { .. } => return After::MeetAgain,
                    Place::InWorld(_) | Place::Waiting => {}
                },
                signal = signal(&mut self.signals) => return After::Over(Over::Signal(signal)),
            }
        }
    }

    async fn leave(self, over: Over) -> Result<Over, LaunchError> {
        let report = self.membership.end().await;
        Ok(over.with_report(report))
    }
}

/// What follows a round.
enum After {
    MeetAgain,
    Over(Over),
}

/// The signal that ends the launcher.
async fn signal(signals: &mut Signals) -> Signal {
    match signals.wait_for(Option::is_some).await.ok().and_then(|signal| *signal) {
        Some(signal) => signal,
        // Nobody can send one any more.
        None => std::future::pending().await,
    }
}
