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
mod world_socket;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;
use flexor_store::sidecar::Upstream;
use nix::sys::signal::Signal;
use nix::unistd::gethostname;
use tokio::sync::watch;

use self::membership::{Membership, Place, World};
pub use self::outcome::{LaunchError, Over};
use self::round::Round;
use self::supervise::Event;
use crate::workers::{
    ERROR_FILE_VARIABLE, FailureReport, Ladder, Outcome, RunLogs, Shim, WorkerExit, command_line, propagate, root_cause,
};

/// A node that waits so long for a world says so.
const SILENCE: Duration = Duration::from_secs(3);
/// How long new workers may take before they say that they are ready for a world.
const START_WITHIN: Duration = Duration::from_secs(600);

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
    /// How long the node waits for a world; for ever where nothing is said.
    pub join_within: Option<Duration>,
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
    /// Failures of workers that others went on without.
    failures: u32,
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
        let launcher = Launcher { launch: self, membership, signals, failures: 0, attempts: 0 };
        launcher.run().await
    }
}

impl Launcher<'_> {
    async fn run(mut self) -> Result<Over, LaunchError> {
        let (mut kept, mut moved_on) = (None, None);
        loop {
            let joined = match moved_on.take() {
                Some(world) => Ok(world),
                None => self.join(&mut kept).await,
            };
            let world = match joined {
                Ok(world) => world,
                Err(over) => {
                    self.give_up(kept, &over).await;
                    return self.leave(over).await;
                }
            };
            if world.run != self.launch.run && !["", "none"].contains(&self.launch.run.as_str()) && self.attempts == 0 {
                tracing::warn!(job = world.run, "the master serves another job than --rdzv-id {}", self.launch.run);
            }
            match self.work(&world, kept.take()).await {
                Ok(After::MeetAgain(round)) => kept = round.map(|round| *round),
                Ok(After::Enter(world)) => moved_on = Some(world),
                Ok(After::Over(over)) => return self.leave(over).await,
                Err(error) => {
                    self.membership.end().await;
                    return Err(error);
                }
            }
        }
    }

    /// Waits for the next world that this node is in. Workers that are kept for it may end in the meantime.
    async fn join(&mut self, kept: &mut Option<Round>) -> Result<World, Over> {
        self.membership.join(kept.as_ref().is_some_and(Round::has_told));
        let limit = async {
            match self.launch.join_within {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let silence = tokio::time::sleep(SILENCE);
        tokio::pin!(limit, silence);
        let mut told = false;
        loop {
            tokio::select! {
                place = self.membership.changed() => match place {
                    Place::InWorld(world) => return Ok(world),
                    Place::Closed(because) if self.attempts == 0 => return Err(Over::before(because)),
                    Place::Closed(because) => return Err(Over::closed(because)),
                    Place::Fenced(because) => return Err(Over::Fenced(because)),
                    // The world that it waited for has ended before this node was in it.
                    Place::Restart { .. } => self.membership.join(kept.as_ref().is_some_and(Round::has_told)),
                    Place::Waiting => {}
                },
                () = &mut silence, if !told => {
                    told = true;
                    tracing::info!("waits for other nodes");
                }
                () = a_worker_ends(kept) => {
                    tracing::warn!("a worker ended while it waited for a world; all are started again");
                    if let Some(round) = kept {
                        round.end(self.ladder(), &mut self.signals).await;
                        reports::lost(&self.membership, self.launch, round.incarnation).await;
                    }
                    *kept = None;
                    self.membership.join(false);
                }
                () = &mut limit => return Err(Over::NoWorld(self.launch.join_within.unwrap_or_default())),
                signal = signal(&mut self.signals) => return Err(Over::Signal(signal)),
            }
        }
    }

    /// Works in a world until it ends for this node, with the workers it has or with new ones.
    async fn work(&mut self, world: &World, kept: Option<Round>) -> Result<After, LaunchError> {
        let joins = kept.is_some().then_some(world.round);
        let mut round = match kept {
            Some(mut round) => {
                round.go_on(self.launch, world).await?;
                round
            }
            None => {
                self.attempts += 1;
                Round::begin(self.launch, world, self.attempts - 1).await?
            }
        };
        let count = self.launch.processes;
        let event = loop {
            let (membership, signals) = (&mut self.membership, &mut self.signals);
            match supervise::until_something_happens(&mut round, count, joins, membership, signals).await {
                Event::WorkerFinished(local) if round.group.running() > 0 => {
                    reports::worker_finished(&self.membership, self.launch, round.incarnation, local).await;
                }
                Event::WorkerFinished(_) => {}
                event => break event,
            }
        };
        match event {
            // Told apart above.
            Event::WorkerFinished(_) => Ok(After::MeetAgain(None)),
            Event::Finished => {
                round.end(self.ladder(), &mut self.signals).await;
                reports::finished(&self.membership, self.launch, round.incarnation).await;
                Ok(self.wait_for_the_others().await)
            }
            Event::Failed => {
                round.end(self.ladder(), &mut self.signals).await;
                self.after_failure(world, round).await
            }
            Event::MeetAgain(because) => {
                tracing::info!(round = world.round, %because, "meets again");
                if supervise::all_leave(&mut round, count, &because, &mut self.signals).await {
                    return Ok(After::MeetAgain(Some(Box::new(round))));
                }
                round.end(self.ladder(), &mut self.signals).await;
                let failed = |exit: &WorkerExit| !exit.ended && !exit.outcome.is_success();
                if round.opted_in && round.group.exits().iter().any(failed) {
                    // Its peers had noticed before its end was seen here.
                    return self.after_failure(world, round).await;
                }
                reports::lost(&self.membership, self.launch, round.incarnation).await;
                Ok(After::MeetAgain(None))
            }
            Event::MovedOn(next) => {
                tracing::info!(round = world.round, next = next.round, "is in a later world");
                round.end(self.ladder(), &mut self.signals).await;
                reports::lost(&self.membership, self.launch, round.incarnation).await;
                Ok(After::Enter(next))
            }
            Event::PeersGone => {
                tracing::info!(round = world.round, "its workers have lost their peers; meets again");
                Ok(After::MeetAgain(Some(Box::new(round))))
            }
            Event::Over(over) => {
                self.give_up(Some(round), &over).await;
                Ok(After::Over(over))
            }
        }
    }

    /// A worker has failed, and the group is ended.
    async fn after_failure(&mut self, world: &World, round: Round) -> Result<After, LaunchError> {
        let exits = round.group.exits().to_vec();
        let opted_in = round.opted_in;
        self.failed(world, round.incarnation, &exits, opted_in).await;
        drop(round);
        if opted_in { self.start_outside(world, &exits).await } else { Ok(After::MeetAgain(None)) }
    }

    /// A worker has failed among others that can go on without it: the node stands aside until new ones are ready, so that
    /// nobody waits for their start.
    async fn start_outside(&mut self, world: &World, exits: &[WorkerExit]) -> Result<After, LaunchError> {
        let mut exits = exits.to_vec();
        let mut incarnation = world.round + 1;
        loop {
            self.failures += u32::from(!exits.iter().all(|exit| exit.outcome.is_success() || was_killed(exit)));
            if self.failures > self.launch.max_restarts {
                let (failures, max) = (self.failures, self.launch.max_restarts);
                let detail = format!("the program failed {failures} times on this node, {max} restarts are allowed");
                return Ok(After::Over(Over::closed(format!("{}: {detail}", Reason::RestartsExhausted))));
            }
            self.membership.stand_aside().await;
            self.attempts += 1;
            let mut round = Round::begin_outside(self.launch, incarnation, self.attempts - 1)?;
            let count = self.launch.processes;
            if supervise::all_become_ready(&mut round, count, START_WITHIN, &mut self.signals).await {
                return Ok(After::MeetAgain(Some(Box::new(round))));
            }
            round.end(self.ladder(), &mut self.signals).await;
            if let Some(signal) = *self.signals.borrow() {
                return Ok(After::Over(Over::Signal(signal)));
            }
            exits = round.group.exits().to_vec();
            self.failed(world, incarnation, &exits, true).await;
            incarnation += 1;
        }
    }

    /// The program has failed on this node: the master hears of what and why.
    async fn failed(&mut self, world: &World, incarnation: u64, exits: &[WorkerExit], certain: bool) {
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
        if let Some(report) = FailureReport::new(command, host, exits.len(), exits) {
            tracing::warn!(round = world.round, "the program failed: {}", report.root_cause.message);
            reports::failed(&self.membership, self.launch, incarnation, &report, certain).await;
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
                    Place::Restart { .. } => return After::MeetAgain(None),
                    Place::InWorld(_) | Place::Waiting => {}
                },
                signal = signal(&mut self.signals) => return After::Over(Over::Signal(signal)),
            }
        }
    }

    async fn give_up(&mut self, round: Option<Round>, over: &Over) {
        if let Some(mut round) = round {
            let signal = if let Over::Signal(signal) = over { *signal } else { Signal::SIGTERM };
            if let Over::Signal(signal) = over {
                tracing::info!("{signal}: ends its workers; another signal kills them");
            }
            round.end(Ladder { signal, ..self.ladder() }, &mut self.signals).await;
            reports::lost(&self.membership, self.launch, round.incarnation).await;
        }
    }

    async fn leave(self, over: Over) -> Result<Over, LaunchError> {
        let report = self.membership.end().await;
        Ok(over.with_report(report))
    }

    fn ladder(&self) -> Ladder {
        Ladder { grace: self.launch.grace, ..Ladder::default() }
    }
}

/// What follows a world.
enum After {
    /// Another one, with these workers if they outlived it.
    MeetAgain(Option<Box<Round>>),
    /// This one, which the node is in already.
    Enter(World),
    Over(Over),
}

/// Until a worker that is kept has ended. For ever, where none is kept.
async fn a_worker_ends(kept: &mut Option<Round>) {
    match kept {
        Some(round) => drop(round.group.next_exit().await),
        None => std::future::pending().await,
    }
}

/// Nobody but the outside kills: that is no failure of the program.
fn was_killed(exit: &WorkerExit) -> bool {
    exit.ended || exit.outcome == Outcome::Signal(Signal::SIGKILL as i32)
}

/// The signal that ends the launcher.
async fn signal(signals: &mut Signals) -> Signal {
    match signals.wait_for(Option::is_some).await.ok().and_then(|signal| *signal) {
        Some(signal) => signal,
        // Nobody can send one any more.
        None => std::future::pending().await,
    }
}
