//! The local group: the workers of this node that start and end together, with the store in which they find each other.
//!
//! Workers that have opted in ([`super::world_socket`]) can survive a world. The same group then goes on in the next
//! world, with another store. A group can also start outside every world and wait for its first one.

use std::env;
use std::ffi::OsString;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::incarnations::Incarnation;
use super::launch_end::LaunchError;
use super::node_state::World;
use super::round_store::{self, RoundStore};
use super::world_socket::{WorldMessage, WorldSocket};
use super::{Launch, Signals};
use crate::workers::{
    EnvironmentChanges, GlobalRank, Ladder, LocalRank, WorkerEnvironment, WorkerGroup, WorkerSpec, WorkerWorld,
};

/// What follows a second signal.
const KILL_AT_ONCE: Ladder = Ladder { signal: Signal::SIGKILL, grace: Duration::ZERO };

/// How often the program has failed, and how often it may.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RestartCount {
    pub(super) failures: u32,
    pub(super) max_restarts: u32,
}

impl RestartCount {
    fn of(world: &World) -> Self {
        Self { failures: world.program_failures, max_restarts: world.limits.max_restarts }
    }
}

pub(super) struct LocalGroup {
    pub(super) workers: WorkerGroup,
    pub(super) socket: WorldSocket,
    /// The current world for each worker; empty before the first one.
    worlds: Vec<WorldMessage>,
    pub(super) incarnation: u64,
    /// All workers have connected to the socket at some time.
    pub(super) opted_in: bool,
    /// All opted-in workers have been in a world.
    pub(super) has_worked: bool,
    pub(super) started: Instant,
    /// Dropped after the workers, which use it.
    store: Option<RoundStore>,
}

impl LocalGroup {
    /// Starts the workers in a world.
    pub(super) async fn start_in(
        launch: &Launch,
        world: &World,
        incarnation: Incarnation,
    ) -> Result<Self, LaunchError> {
        let store = open_store(launch, world).await?;
        let socket = WorldSocket::open(&launch.node.0, launch.processes)?;
        let Incarnation { number: incarnation, attempt } = incarnation;
        let specs: Vec<WorkerSpec> = (0..launch.processes)
            .map(|local| {
                let worker_world = worker_world(launch, world, &store, local);
                let environment = environment(launch, local, &RestartCount::of(world), Some(worker_world));
                spec(launch, local, (Some(world.first_process + local), environment), incarnation, &socket)
            })
            .collect();
        let workers = WorkerGroup::start(&launch.shim, &specs, &launch.logs.attempt(attempt)?)?;
        let (first, last) = (world.first_process, world.first_process + launch.processes - 1);
        let ranks = format_args!("{first}-{last}");
        tracing::info!(round = world.round, nodes = world.size, processes = world.processes, %ranks, "started");
        let (worlds, started) = (world_messages(launch, world, &store), Instant::now());
        let (opted_in, has_worked) = (false, false);
        Ok(Self { workers, socket, worlds, incarnation, opted_in, has_worked, started, store: Some(store) })
    }

    /// Starts workers outside every world. Nodes that are in a world need not wait for this start.
    pub(super) fn start_outside(
        launch: &Launch,
        restarts: &RestartCount,
        incarnation: Incarnation,
    ) -> Result<Self, LaunchError> {
        let Incarnation { number: incarnation, attempt } = incarnation;
        let socket = WorldSocket::open(&launch.node.0, launch.processes)?;
        let specs: Vec<WorkerSpec> = (0..launch.processes)
            .map(|local| spec(launch, local, (None, environment(launch, local, restarts, None)), incarnation, &socket))
            .collect();
        let workers = WorkerGroup::start(&launch.shim, &specs, &launch.logs.attempt(attempt)?)?;
        tracing::info!("started, to join when ready");
        let (worlds, started) = (Vec::new(), Instant::now());
        let (opted_in, has_worked) = (true, false);
        Ok(Self { workers, socket, worlds, incarnation, opted_in, has_worked, started, store: None })
    }

    /// Moves the workers into another world.
    pub(super) async fn move_to(&mut self, launch: &Launch, world: &World) -> Result<(), LaunchError> {
        let store = open_store(launch, world).await?;
        self.worlds = world_messages(launch, world, &store);
        self.store = Some(store);
        self.opted_in = true;
        self.workers.set_ranks(GlobalRank(world.first_process));
        self.socket.send_worlds(&self.worlds);
        let survivors = world.survivors.len();
        tracing::info!(round = world.round, nodes = world.size, processes = world.processes, survivors, "goes on");
        Ok(())
    }

    /// Sends the world to workers that have connected since it was sent.
    pub(super) fn send_world_to_latecomers(&self) {
        let latecomers = self.socket.without_world();
        let worlds: Vec<WorldMessage> =
            self.worlds.iter().filter(|world| latecomers.contains(&world.local_rank)).cloned().collect();
        self.socket.send_worlds(&worlds);
    }

    /// The round of the world that the workers are in, or were last.
    pub(super) fn round(&self) -> Option<u64> {
        self.worlds.first().map(|world| world.round)
    }

    /// Whether all of `count` workers that have not ended take part in no world.
    pub(super) fn all_running_are_ready(&self, count: u32) -> bool {
        let ready = self.socket.ready();
        let has_ended = |local: u32| self.workers.exits().iter().any(|exit| exit.local_rank.0 == local);
        (0..count).all(|local| has_ended(local) || ready.contains(&local))
    }

    /// Whether the workers have been given a world.
    pub(super) fn had_world(&self) -> bool {
        !self.worlds.is_empty()
    }

    /// Ends the workers. A second signal kills them at once. The first signal does not: it is why they end, or it finds
    /// them ending, perhaps while they write their last checkpoint.
    pub(super) async fn end(&mut self, ladder: Ladder, signals: &mut Signals) {
        let second_signal = async {
            if signals.first().is_none() {
                let signal = signals.until_first().await;
                tracing::info!("{signal}: its workers are ending; another signal kills them");
            }
            signals.until_second().await;
        };
        let termination = tokio::select! {
            termination = self.workers.end(ladder) => termination,
            () = second_signal => self.workers.end(KILL_AT_ONCE).await,
        };
        if !termination.killed.is_empty() {
            tracing::warn!(killed = ?termination.killed, "did not end in time and were killed");
        }
        if !termination.left.is_empty() {
            tracing::error!(left = ?termination.left, "could not be ended");
        }
    }
}

/// The name of a worker towards the master and on the world socket.
pub(super) fn worker_name(node: &str, local_rank: u32) -> String {
    format!("{node}/{local_rank}")
}

async fn open_store(launch: &Launch, world: &World) -> Result<RoundStore, LaunchError> {
    let (node, _) = &launch.node;
    let store = RoundStore::start(launch.master.clone(), node, &world.run, world.round).await;
    Ok(store.map_err(LaunchError::Store)?.at(launch.fixed_store.as_ref()))
}

fn world_messages(launch: &Launch, world: &World, store: &RoundStore) -> Vec<WorldMessage> {
    let message = |local_rank: u32| WorldMessage {
        round: world.round,
        rank: world.first_process + local_rank,
        world_size: world.processes,
        local_rank,
        master_addr: store.address().ip().to_string(),
        master_port: store.address().port(),
        survivors: world.survivors.clone(),
        store_prefix: round_store::prefix(&world.run, world.round),
    };
    (0..launch.processes).map(message).collect()
}

fn worker_world(launch: &Launch, world: &World, store: &RoundStore, local: u32) -> WorkerWorld {
    let rank = world.first_process + local;
    let (master_addr, master_port) = match &launch.fixed_store {
        Some(fixed) => (fixed.host.clone(), fixed.port),
        None => (store.address().ip().to_string(), store.address().port()),
    };
    WorkerWorld {
        rank: GlobalRank(rank),
        world_size: world.processes,
        group_rank: world.rank,
        group_world_size: world.size,
        role_rank: rank,
        role_world_size: world.processes,
        master_addr,
        master_port,
    }
}

fn environment(launch: &Launch, local: u32, restarts: &RestartCount, world: Option<WorkerWorld>) -> EnvironmentChanges {
    let environment = WorkerEnvironment {
        local_rank: LocalRank(local),
        local_world_size: launch.processes,
        role: launch.role.clone(),
        restart_count: restarts.failures,
        max_restarts: restarts.max_restarts,
        run_id: launch.run.clone(),
        use_agent_store: true,
        world,
    };
    let mut changes = environment.changes(|name| env::var_os(name).is_some());
    if launch.virtual_local_rank {
        changes.set("LOCAL_RANK", "0");
        changes.set("CUDA_VISIBLE_DEVICES", device(local, env::var("CUDA_VISIBLE_DEVICES").ok().as_deref()));
    }
    changes
}

/// The device of a worker among those that the launcher sees.
fn device(local: u32, visible: Option<&str>) -> String {
    let named = visible.and_then(|visible| visible.split(',').nth(local as usize)).filter(|name| !name.is_empty());
    named.map_or_else(|| local.to_string(), |name| name.trim().to_owned())
}

fn spec(
    launch: &Launch,
    local: u32,
    (rank, mut environment): (Option<u32>, EnvironmentChanges),
    incarnation: u64,
    socket: &WorldSocket,
) -> WorkerSpec {
    let (node, _) = &launch.node;
    environment.set(flexor_model::env::MASTER.name, launch.master_address.clone());
    if let Some(file) = &launch.token_file {
        environment.set(flexor_model::env::TOKEN_FILE.name, file);
    }
    environment.set(flexor_model::env::WORKER.name, worker_name(node, local));
    environment.set(flexor_model::env::INCARNATION.name, incarnation.to_string());
    environment.set(flexor_model::env::WORLD_SOCKET.name, socket.path());
    WorkerSpec {
        local_rank: LocalRank(local),
        rank: rank.map(GlobalRank),
        role: launch.role.clone(),
        program: launch.program.clone(),
        args: launch.args.iter().map(OsString::clone).collect(),
        environment,
    }
}
