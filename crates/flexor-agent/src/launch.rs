//! A node of a job: it joins the world, starts its workers, watches them, and joins again whenever the world changes.
//!
//! ```text
//! Membership ──world──▶ Launcher ──specs──▶ LocalGroup
//!     ▲                    │ exits
//!   master ◀── finished, ended, failed ──┘
//! ```
//!
//! One task ([`Launcher`]) owns the state of the node; [`NextStep`] lists what it can do next. The master decides who is
//! in the world and when the nodes hold a rendezvous again. The master also counts failures of the program, because a
//! failure restarts the workers of all nodes. Command lines are parsed by the binary.

mod finished_node;
mod fixed_store;
mod group_failure;
mod incarnations;
mod job_identity;
mod launch_end;
mod limits;
mod local_group;
mod master_status;
mod membership;
mod node_state;
mod outbox;
mod outside_start;
mod rendezvous;
mod reports;
mod restarts;
mod round_store;
mod session;
mod session_protocol;
mod signals;
mod wait_log;
mod world_socket;
mod world_watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flexor_client::Upstream;

pub use self::fixed_store::FixedStore;
use self::incarnations::Incarnations;
pub use self::launch_end::{LaunchEnd, LaunchError};
pub use self::limits::{Limits, RequestedLimits};
use self::local_group::LocalGroup;
use self::membership::Membership;
use self::node_state::World;
use self::restarts::Restarts;
pub use self::signals::{SignalSender, Signals, signals};
use self::world_watch::WorldEvent;
use crate::workers::{Ladder, RunLogs, Shim};

/// What a node launches, and the job that it takes part in.
pub struct Launch {
    pub master: Upstream,
    /// `HOST:PORT` of the master, as the workers find it in their environment.
    pub master_address: String,
    /// The file with the job's token, if the master requires one.
    pub token_file: Option<PathBuf>,
    /// The name of the run, which is the name of the job.
    pub run: String,
    /// The node's name and incarnation.
    pub node: (Arc<str>, u64),
    /// Workers per node.
    pub processes: u32,
    pub program: OsString,
    pub args: Vec<OsString>,
    /// The role of the workers.
    pub role: String,
    /// What this node's command line requests. The master decides.
    pub requested: RequestedLimits,
    /// How long workers have to end by themselves.
    pub grace: Duration,
    /// How long the node waits for a world; without a limit, for ever.
    pub join_timeout: Option<Duration>,
    /// How long workers that survive a change have to leave their world. They have three times as long to join the next.
    pub change_timeout: Duration,
    /// Where the programs of this node expect the store, if not at a port that the launcher chooses.
    pub fixed_store: Option<FixedStore>,
    /// Whether every worker sees only its own GPU, and local rank 0.
    pub virtual_local_rank: bool,
    /// How a worker is started.
    pub shim: Shim,
    pub logs: RunLogs,
}

/// A node at work.
struct Launcher<'a> {
    launch: &'a mut Launch,
    membership: Membership,
    signals: Signals,
    incarnations: Incarnations,
    restarts: Restarts,
    /// The node has been in a world.
    has_worked: bool,
}

/// What a node does next.
enum NextStep {
    AwaitMaster,
    /// Waits for a world, with these workers if they survived the last one.
    AwaitWorld(Option<Box<LocalGroup>>),
    /// Works in this world, with these workers or new ones.
    Work(World, Option<Box<LocalGroup>>),
    /// Starts workers outside every world. Their predecessors lived for this long.
    StartOutside(Duration),
    /// Has finished, and waits for the run to close or for others to need it.
    AwaitClose,
    /// Ends. Its workers are gone.
    End(LaunchEnd),
}

impl Launch {
    /// Takes part in the job until it is over.
    ///
    /// # Errors
    ///
    /// The workers cannot be started, or their output has nowhere to go.
    pub async fn run(&mut self, signals: Signals) -> Result<LaunchEnd, LaunchError> {
        if let Some(folder) = self.logs.folder_of_files() {
            tracing::info!("writes the output of its workers to files in {}", folder.display());
        }
        let membership = Membership::start(self);
        let (incarnations, restarts) = (Incarnations::start(), Restarts::new());
        Launcher { launch: self, membership, signals, incarnations, restarts, has_worked: false }.run().await
    }
}

impl Launcher<'_> {
    async fn run(mut self) -> Result<LaunchEnd, LaunchError> {
        let mut next = Ok(NextStep::AwaitMaster);
        loop {
            next = match next {
                Ok(step) if self.signals.first().is_some() && !matches!(step, NextStep::End(_)) => {
                    // The signal may have come during the step before.
                    Ok(self.end_instead_of(step).await)
                }
                Ok(NextStep::AwaitMaster) => Ok(self.await_master().await),
                Ok(NextStep::AwaitWorld(survivors)) => Ok(self.await_world(survivors).await),
                Ok(NextStep::Work(world, survivors)) => self.work(world, survivors).await,
                Ok(NextStep::StartOutside(lived)) => self.start_outside(lived).await,
                Ok(NextStep::AwaitClose) => Ok(self.await_close().await),
                Ok(NextStep::End(mut end)) => {
                    if let Some(failure) = self.membership.leave(Some(&end)).await {
                        failure.attach_to(&mut end);
                    }
                    return Ok(end);
                }
                Err(error) => {
                    self.membership.leave(None).await;
                    return Err(error);
                }
            }
        }
    }

    /// Works in a world until it ends for this node, with surviving workers or with new ones.
    async fn work(&mut self, world: World, survivors: Option<Box<LocalGroup>>) -> Result<NextStep, LaunchError> {
        self.membership.stay();
        self.membership.set_survives_changes(survivors.is_some());
        let joining = survivors.is_some().then_some(world.round);
        let mut group = match survivors {
            Some(mut group) => {
                if let Err(error) = group.move_to(self.launch, &world).await {
                    self.end_group(&mut group).await;
                    self.membership.report(reports::all_ended(self.launch, &group));
                    return Err(error);
                }
                *group
            }
            None => LocalGroup::start_in(self.launch, &world, self.incarnations.next()).await?,
        };
        if !std::mem::replace(&mut self.has_worked, true) {
            self.warn_of_overrides(&world);
        }
        let round = world.round;
        let (membership, signals) = (&mut self.membership, &mut self.signals);
        let event = world_watch::next_event(&mut group, self.launch, joining, membership, signals).await;
        if group.has_worked {
            self.restarts.note_work();
        }
        Ok(match event {
            WorldEvent::Finished => {
                self.end_group(&mut group).await;
                self.membership.report(reports::all_ended(self.launch, &group));
                NextStep::AwaitClose
            }
            WorldEvent::Failed => self.handle_failure(group).await,
            WorldEvent::Rendezvous(cause) => {
                tracing::info!(round, %cause, "joins the next rendezvous");
                self.rejoin(group, &cause).await
            }
            WorldEvent::PeersGone => {
                tracing::info!(round, "its workers have lost their peers; joins the next rendezvous");
                NextStep::AwaitWorld(Some(Box::new(group)))
            }
            WorldEvent::NotJoined => {
                tracing::warn!(round, "its workers did not join the world in time; restarts them");
                self.handle_failure(group).await
            }
            WorldEvent::End(end) => {
                self.give_up(Some(Box::new(group)), &end).await;
                NextStep::End(end)
            }
        })
    }

    /// The world changes: workers that can go on in the next world are kept, others are ended.
    async fn rejoin(&mut self, mut group: LocalGroup, cause: &str) -> NextStep {
        if world_watch::leave_world(&mut group, self.launch, cause, &mut self.signals).await {
            return NextStep::AwaitWorld(Some(Box::new(group)));
        }
        if group.opted_in && group.workers.first_failure().is_some() {
            // A worker of this node failed, and the peers noticed before this launcher did.
            return self.handle_failure(group).await;
        }
        self.end_group(&mut group).await;
        self.membership.report(reports::all_ended(self.launch, &group));
        NextStep::AwaitWorld(None)
    }

    /// Warns where the master's limits differ from this node's command line.
    fn warn_of_overrides(&self, world: &World) {
        for overridden in self.launch.requested.overridden_by(&world.limits) {
            tracing::warn!("overridden by the master: {overridden}");
        }
    }

    /// A signal ends the launcher in place of its next step.
    async fn end_instead_of(&mut self, step: NextStep) -> NextStep {
        let end = LaunchEnd::Signal(self.signals.until_first().await);
        let group = match step {
            NextStep::AwaitWorld(group) | NextStep::Work(_, group) => group,
            NextStep::AwaitMaster | NextStep::StartOutside(_) | NextStep::AwaitClose | NextStep::End(_) => None,
        };
        self.give_up(group, &end).await;
        NextStep::End(end)
    }

    async fn give_up(&mut self, group: Option<Box<LocalGroup>>, end: &LaunchEnd) {
        self.membership.stop_joining();
        let Some(mut group) = group else { return };
        if let LaunchEnd::Signal(signal) = end {
            tracing::info!("{signal}: ends its workers; another signal kills them");
        }
        self.end_group(&mut group).await;
        self.membership.report(reports::all_ended(self.launch, &group));
    }

    /// Ends workers: with the signal that the launcher has received, if any, else with the default one.
    async fn end_group(&mut self, group: &mut LocalGroup) {
        let default = Ladder::default();
        let ladder = Ladder { grace: self.launch.grace, signal: self.signals.first().unwrap_or(default.signal) };
        group.end(ladder, &mut self.signals).await;
    }
}
