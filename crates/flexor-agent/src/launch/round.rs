//! One round of this node: its workers and the store they find each other in.

use std::env;
use std::ffi::OsString;

use super::membership::World;
use super::outcome::LaunchError;
use super::store::RoundStore;
use super::{Launch, Signals, signal};
use crate::workers::{GlobalRank, Ladder, LocalRank, WorkerEnvironment, WorkerGroup, WorkerSpec};

/// How long a second signal leaves.
const AT_ONCE: Ladder = Ladder { signal: nix::sys::signal::Signal::SIGKILL, grace: std::time::Duration::ZERO };

pub(super) struct Round {
    pub(super) group: WorkerGroup,
    /// After the group, which uses it.
    _store: RoundStore,
}

impl Round {
    pub(super) async fn begin(
        launch: &Launch,
        world: &World,
        restarts: u32,
        attempt: u32,
    ) -> Result<Self, LaunchError> {
        let (node, _) = &launch.node;
        let store = RoundStore::begin(launch.master.clone(), node, &world.run, world.round).await?;
        let specs: Vec<WorkerSpec> =
            (0..launch.processes).map(|local| spec(launch, world, restarts, &store, local)).collect();
        let logs = launch.logs.attempt(attempt)?;
        let group = WorkerGroup::start(&launch.shim, &specs, &logs)?;
        let (first, last) = (world.first_process, world.first_process + launch.processes - 1);
        tracing::info!(round = world.round, nodes = world.size, processes = world.processes, ranks = %format_args!("{first}-{last}"), "started");
        Ok(Self { group, _store: store })
    }

    /// Ends the workers; a signal in the meantime leaves them no more time.
    pub(super) async fn end(&mut self, ladder: Ladder, signals: &mut Signals) {
        let told_before = signals.borrow_and_update().is_some();
        let again = async {
            if told_before {
                // The first one is why we are here.
                let _ = signals.changed().await;
            } else {
                signal(signals).await;
            }
        };
        let ending = tokio::select! {
            ending = self.group.end(ladder) => ending,
            () = again => self.group.end(AT_ONCE).await,
        };
        if !ending.killed.is_empty() {
            tracing::warn!(killed = ?ending.killed, "did not end in time and were killed");
        }
        if !ending.left.is_empty() {
            tracing::error!(left = ?ending.left, "could not be ended");
        }
    }
}

/// The name of a worker in everything that is told about it.
pub(super) fn worker_name(node: &str, local_rank: u32) -> String {
    format!("{node}/{local_rank}")
}

fn spec(launch: &Launch, world: &World, restarts: u32, store: &RoundStore, local: u32) -> WorkerSpec {
    let rank = world.first_process + local;
    let environment = WorkerEnvironment {
        rank: GlobalRank(rank),
        local_rank: LocalRank(local),
        world_size: world.processes,
        local_world_size: launch.processes,
        group_rank: world.rank,
        group_world_size: world.size,
        role: launch.role.clone(),
        role_rank: rank,
        role_world_size: world.processes,
        master_addr: store.address().ip().to_string(),
        master_port: store.address().port(),
        restart_count: restarts,
        max_restarts: launch.max_restarts,
        run_id: launch.run.clone(),
        use_agent_store: true,
    };
    let mut environment = environment.changes(|name| env::var_os(name).is_some());
    let (node, _) = &launch.node;
    environment.set(flexor_model::env::MASTER.name, launch.master_address.clone());
    environment.set(flexor_model::env::WORKER.name, worker_name(node, local));
    // A worker that is started again is started in another round.
    environment.set(flexor_model::env::INCARNATION.name, world.round.to_string());
    WorkerSpec {
        local_rank: LocalRank(local),
        rank: GlobalRank(rank),
        role: launch.role.clone(),
        program: launch.program.clone(),
        args: launch.args.iter().map(OsString::clone).collect(),
        environment,
    }
}
