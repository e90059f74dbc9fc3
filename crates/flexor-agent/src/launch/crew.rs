//! The crew: the workers of this node that live and die together, with the store they find each other in.
//!
//! Workers that have opted in ([`super::world_socket`]) may outlive a world: then the same crew goes on in the next one,
//! with another store; or it is started outside and waits for its first world.

use std::env;
use std::ffi::OsString;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::lives::Life;
use super::outcome::LaunchError;
use super::place::World;
use super::store::{self, RoundStore};
use super::world_socket::{ToldWorld, WorldSocket};
use super::{Launch, Signals};
use crate::workers::{
    EnvironmentChanges, GlobalRank, Ladder, LocalRank, WorkerEnvironment, WorkerGroup, WorkerSpec, WorkerWorld,
};

/// What a second signal leaves.
const AT_ONCE: Ladder = Ladder { signal: Signal::SIGKILL, grace: Duration::ZERO };

/// How often the program has failed, and may.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) failures: u32,
    pub(super) max_restarts: u32,
}

impl Counted {
    fn of(world: &World) -> Self {
        Self { failures: world.program_failures, max_restarts: world.limits.max_restarts }
    }
}

pub(super) struct Crew {
    pub(super) group: WorkerGroup,
    pub(super) socket: WorldSocket,
    /// What the workers are told of the world they are in; nothing before the first.
    told: Vec<ToldWorld>,
    /// Which life of its workers this is.
    pub(super) incarnation: u64,
    /// All of them have connected to the socket at some time.
    pub(super) opted_in: bool,
    /// All of those have been in a world.
    pub(super) has_worked: bool,
    /// Since when they live.
    pub(super) started: Instant,
    /// After the group, which uses it.
    store: Option<RoundStore>,
}

impl Crew {
    /// Starts the workers in a world.
    pub(super) async fn begin(launch: &Launch, world: &World, life: Life) -> Result<Self, LaunchError> {
        let store = open_store(launch, world).await?;
        let socket = WorldSocket::open(&launch.node.0, launch.processes)?;
        let Life { incarnation, attempt } = life;
        let specs: Vec<WorkerSpec> = (0..launch.processes)
            .map(|local| {
                let place = place(world, &store, local);
                let environment = environment(launch, local, &Counted::of(world), Some(place));
                spec(launch, local, (Some(world.first_process + local), environment), incarnation, &socket)
            })
            .collect();
        let group = WorkerGroup::start(&launch.shim, &specs, &launch.logs.attempt(attempt)?)?;
        let (first, last) = (world.first_process, world.first_process + launch.processes - 1);
        let ranks = format_args!("{first}-{last}");
        tracing::info!(round = world.round, nodes = world.size, processes = world.processes, %ranks, "started");
        let (told, started) = (told(launch, world, &store), Instant::now());
        let (opted_in, has_worked) = (false, false);
        Ok(Self { group, socket, told, incarnation, opted_in, has_worked, started, store: Some(store) })
    }

    /// Starts workers that wait for a world, so that those who are in one need not wait for them.
    pub(super) fn begin_outside(launch: &Launch, counted: &Counted, life: Life) -> Result<Self, LaunchError> {
        let Life { incarnation, attempt } = life;
        let socket = WorldSocket::open(&launch.node.0, launch.processes)?;
        let specs: Vec<WorkerSpec> = (0..launch.processes)
            .map(|local| spec(launch, local, (None, environment(launch, local, counted, None)), incarnation, &socket))
            .collect();
        let group = WorkerGroup::start(&launch.shim, &specs, &launch.logs.attempt(attempt)?)?;
        tracing::info!("started, to join when ready");
        let (told, started) = (Vec::new(), Instant::now());
        let (opted_in, has_worked) = (true, false);
        Ok(Self { group, socket, told, incarnation, opted_in, has_worked, started, store: None })
    }

    /// Takes the workers over into another world.
    pub(super) async fn go_on(&mut self, launch: &Launch, world: &World) -> Result<(), LaunchError> {
        let store = open_store(launch, world).await?;
        self.told = told(launch, world, &store);
        self.store = Some(store);
        self.opted_in = true;
        self.group.set_ranks(GlobalRank(world.first_process));
        self.socket.tell(&self.told);
        let survivors = world.survivors.len();
        tracing::info!(round = world.round, nodes = world.size, processes = world.processes, survivors, "goes on");
        Ok(())
    }

    /// Tells the world to those who have come since it was told.
    pub(super) fn tell_latecomers(&self) {
        let untold = self.socket.untold();
        let worlds: Vec<ToldWorld> =
            self.told.iter().filter(|world| untold.contains(&world.local_rank)).cloned().collect();
        self.socket.tell(&worlds);
    }

    /// The round of the world that its workers are in, or were last.
    pub(super) fn round(&self) -> Option<u64> {
        self.told.first().map(|world| world.round)
    }

    /// Whether all of `count` workers that have not ended take part in no world.
    pub(super) fn all_left_are_ready(&self, count: u32) -> bool {
        let ready = self.socket.ready();
        let has_ended = |local: u32| self.group.exits().iter().any(|exit| exit.local_rank.0 == local);
        (0..count).all(|local| has_ended(local) || ready.contains(&local))
    }

    /// Whether its workers have been in a world.
    pub(super) fn has_told(&self) -> bool {
        !self.told.is_empty()
    }

    /// Ends the workers. The second signal leaves them no more time; the first is why they end, or finds them at it,
    /// perhaps at their last checkpoint.
    pub(super) async fn end(&mut self, ladder: Ladder, signals: &mut Signals) {
        let no_more_time = async {
            if signals.first().is_none() {
                let signal = signals.until_first().await;
                tracing::info!("{signal}: its workers are ending; another signal kills them");
            }
            signals.until_second().await;
        };
        let ending = tokio::select! {
            ending = self.group.end(ladder) => ending,
            () = no_more_time => self.group.end(AT_ONCE).await,
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

async fn open_store(launch: &Launch, world: &World) -> Result<RoundStore, LaunchError> {
    let (node, _) = &launch.node;
    RoundStore::begin(launch.master.clone(), node, &world.run, world.round).await.map_err(LaunchError::Store)
}

fn told(launch: &Launch, world: &World, store: &RoundStore) -> Vec<ToldWorld> {
    let one = |local_rank: u32| ToldWorld {
        round: world.round,
        rank: world.first_process + local_rank,
        world_size: world.processes,
        local_rank,
        master_addr: store.address().ip().to_string(),
        master_port: store.address().port(),
        survivors: world.survivors.clone(),
        store_prefix: store::prefix(&world.run, world.round),
    };
    (0..launch.processes).map(one).collect()
}

fn place(world: &World, store: &RoundStore, local: u32) -> WorkerWorld {
    let rank = world.first_process + local;
    WorkerWorld {
        rank: GlobalRank(rank),
        world_size: world.processes,
        group_rank: world.rank,
        group_world_size: world.size,
        role_rank: rank,
        role_world_size: world.processes,
        master_addr: store.address().ip().to_string(),
        master_port: store.address().port(),
    }
}

fn environment(launch: &Launch, local: u32, counted: &Counted, world: Option<WorkerWorld>) -> EnvironmentChanges {
    let environment = WorkerEnvironment {
        local_rank: LocalRank(local),
        local_world_size: launch.processes,
        role: launch.role.clone(),
        restart_count: counted.failures,
        max_restarts: counted.max_restarts,
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
