//! A simulated job, second by second: it carries orders out as the controller does, and gives samples as the master does.

use std::time::Duration;

use flexor_model::{ObjectName, ReplicaRange, RoleName};

use super::pods::{Scheduler, SimPod};
use super::queues::{Queues, WorkerUse};
use super::random::Random;
use super::shape::JobShape;
use crate::scaling::{
    Allotment, AutomaticPlan, BatchTimes, Ceiling, PlanState, PodLoad, PodSample, Proposal, Sample, ScaledRole, Servers,
};

/// Pods without room end a plan after this many seconds.
const PATIENCE: f64 = 60.0;
/// Seconds until partitions have moved, and how long requests wait for that.
const MOVING: f64 = 2.0;
const FREEZE: f64 = 0.3;
const MOST_WORKERS: u32 = 60;
const MOST_SERVERS: u32 = 15;
/// A report in so many is lost.
const LOST: f64 = 0.02;
/// What a worker takes of its memory.
const WORKER_MEMORY: f64 = 0.4;

/// Sizes to be carried out.
#[derive(Debug, Clone, Default)]
pub(super) struct Order {
    pub(super) workers: Option<u32>,
    pub(super) servers: Option<u32>,
    /// What the next pods of a role request.
    pub(super) worker_pod: Option<Allotment>,
    pub(super) server_pod: Option<Allotment>,
    /// Workers and servers that get a successor, by rank.
    pub(super) migrate_servers: Vec<(usize, Allotment)>,
}

/// A job that runs.
#[derive(Debug)]
pub(super) struct World<'a> {
    shape: &'a JobShape,
    queues: Queues<'a>,
    random: Random,
    scheduler: Scheduler,
    now: f64,
    chief: SimPod,
    workers: Vec<SimPod>,
    servers: Vec<SimPod>,
    /// Successors of servers, by rank.
    successors: Vec<(usize, SimPod)>,
    worker_pod: Allotment,
    server_pod: Allotment,
    wanted_workers: u32,
    wanted_servers: u32,
    plan: Option<AutomaticPlan>,
    /// Partitions move until then.
    moving_until: f64,
    /// The servers that the queues have.
    serving: Vec<u32>,
    loads: std::collections::BTreeMap<u32, PodLoad>,
    /// Servers that were killed because they exceeded their memory.
    pub(super) oom_kills: u32,
    /// The most that all pods have requested at once, migrations excepted.
    pub(super) peak: Allotment,
}

impl<'a> World<'a> {
    pub(super) fn new(shape: &'a JobShape) -> Self {
        let mut scheduler = Scheduler::new(shape.capacity, shape.start);
        let (chief, server) = (scheduler.create(shape.pod, 0.0), scheduler.create(shape.pod, 0.0));
        let mut world = Self {
            shape,
            queues: Queues::new(shape, shape.seed),
            random: Random::new(shape.seed ^ 0xFEED),
            scheduler,
            now: 0.0,
            chief,
            workers: Vec::new(),
            servers: vec![server],
            successors: Vec::new(),
            worker_pod: shape.pod,
            server_pod: shape.pod,
            wanted_workers: 0,
            wanted_servers: 1,
            plan: None,
            moving_until: 0.0,
            serving: Vec::new(),
            loads: std::collections::BTreeMap::new(),
            oom_kills: 0,
            peak: Allotment::default(),
        };
        // Time begins when the first pods run.
        world.schedule();
        world.now = shape.start;
        world.schedule();
        world.now = 0.0;
        world
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_secs_f64(self.now)
    }

    pub(super) fn batches(&self) -> u64 {
        self.queues.batches
    }

    pub(super) fn is_open(&self) -> bool {
        self.plan.is_some_and(|plan| plan.state == PlanState::Open)
    }

    /// Plays a second.
    pub(super) fn tick(&mut self) {
        self.schedule();
        self.advance_plan();
        self.connect();
        self.queues.load = self.shape.load(self.now());
        self.queues.noise = (1.0 + self.shape.noise * self.random.normal()).max(0.2);
        self.queues.play_until(self.now + 1.0);
        self.now += 1.0;
        self.kill_what_exceeds_its_memory();
        self.report();
    }

    /// Takes an order as the next automatic plan.
    pub(super) fn carry_out(&mut self, order: &Order) {
        let number = self.plan.map_or(0, |plan| plan.number + 1);
        self.plan = Some(AutomaticPlan { number, state: PlanState::Open });
        self.worker_pod = order.worker_pod.unwrap_or(self.worker_pod);
        self.server_pod = order.server_pod.unwrap_or(self.server_pod);
        self.wanted_workers = order.workers.unwrap_or(self.wanted_workers);
        self.wanted_servers = order.servers.unwrap_or(self.wanted_servers);
        for (rank, allotment) in &order.migrate_servers {
            let successor = self.scheduler.create(*allotment, self.now);
            self.successors.push((*rank, successor));
        }
        self.workers.truncate(self.wanted_workers as usize);
        while self.workers.len() < self.wanted_workers as usize {
            self.workers.push(self.scheduler.create(self.worker_pod, self.now));
        }
        while self.servers.len() < self.wanted_servers as usize {
            self.servers.push(self.scheduler.create(self.server_pod, self.now));
        }
    }

    fn schedule(&mut self) {
        let successors = self.successors.iter_mut().map(|(_, pod)| pod);
        let others = self.servers.iter_mut().chain(&mut self.workers).chain(successors);
        self.scheduler.schedule(std::iter::once(&mut self.chief).chain(others), self.now);
    }

    fn pods(&self) -> impl Iterator<Item = &SimPod> {
        std::iter::once(&self.chief)
            .chain(&self.workers)
            .chain(&self.servers)
            .chain(self.successors.iter().map(|(_, pod)| pod))
    }

    fn advance_plan(&mut self) {
        if !self.is_open() {
            return;
        }
        if self.pods().any(|pod| pod.waited(self.now) >= PATIENCE) {
            self.workers.retain(|pod| !pod.has_no_room());
            self.servers.retain(|pod| !pod.has_no_room());
            self.successors.clear();
            self.wanted_workers = self.workers.len() as u32;
            self.wanted_servers = self.servers.len() as u32;
            self.end_plan(PlanState::NoRoom);
            return;
        }
        let wanted = self.wanted_servers as usize;
        // Servers that leave hand their partitions to the others as soon as all of those run.
        if self.servers.iter().take(wanted).chain(self.successors.iter().map(|(_, pod)| pod)).all(SimPod::runs) {
            for (rank, pod) in std::mem::take(&mut self.successors) {
                self.servers[rank] = pod;
            }
            self.servers.truncate(wanted);
        }
        if self.pods().all(SimPod::runs) {
            let is_served = self.serving == self.servers.iter().map(|pod| pod.uid).collect::<Vec<_>>();
            if is_served && self.now >= self.moving_until {
                self.end_plan(PlanState::Succeeded);
            }
        }
    }

    fn end_plan(&mut self, state: PlanState) {
        self.plan = self.plan.map(|plan| AutomaticPlan { state, ..plan });
        let total = self.pods().fold(Allotment::default(), |sum, pod| sum.plus(pod.allotment));
        let Allotment { millicores, bytes } = self.peak;
        self.peak = Allotment { millicores: millicores.max(total.millicores), bytes: bytes.max(total.bytes) };
    }

    /// Gives the queues the pods that run. Servers change together, once all of them run.
    fn connect(&mut self) {
        let running = std::iter::once(&self.chief).chain(&self.workers).filter(|pod| pod.runs());
        let workers: Vec<(u32, f64)> = running.map(|pod| (pod.uid, pod.allotment.cores())).collect();
        self.queues.set_workers(&workers);
        let servers: Vec<u32> = self.servers.iter().map(|pod| pod.uid).collect();
        if servers != self.serving && self.servers.iter().all(SimPod::runs) && self.successors.is_empty() {
            let cores: Vec<f64> = self.servers.iter().map(|pod| pod.allotment.cores()).collect();
            self.queues.set_servers(&cores, FREEZE);
            self.moving_until = if self.serving.is_empty() { 0.0 } else { self.now + MOVING };
            self.serving = servers;
        }
    }

    fn server_bytes(&self, rank: usize) -> u64 {
        self.shape.server_bytes(self.queues.batches as f64, rank, self.serving.len().max(1))
    }

    /// A server that is killed comes back with twice the memory. All workers wait for it.
    fn kill_what_exceeds_its_memory(&mut self) {
        for rank in 0..self.serving.len().min(self.servers.len()) {
            let Allotment { millicores, bytes } = self.servers[rank].allotment;
            if self.serving[rank] == self.servers[rank].uid && self.server_bytes(rank) > bytes {
                self.oom_kills += 1;
                let mut pod = self.scheduler.create(Allotment { millicores, bytes: bytes * 2 }, self.now);
                pod.state = super::pods::PodState::Running;
                self.servers[rank] = pod;
                self.serving[rank] = self.servers[rank].uid;
                let cores: Vec<f64> =
                    self.servers.iter().take(self.serving.len()).map(|pod| pod.allotment.cores()).collect();
                self.queues.set_servers(&cores, self.shape.start);
                self.moving_until = self.now + self.shape.start;
            }
        }
    }

    fn report(&mut self) {
        let at = self.now();
        let mut reports = Vec::new();
        for (pod, of_worker) in
            std::iter::once(&self.chief).chain(&self.workers).map(|pod| (pod, self.queues.used(pod.uid)))
        {
            let bytes = (WORKER_MEMORY * pod.allotment.bytes as f64) as u64;
            reports.push((pod.uid, of_worker, bytes));
        }
        for (rank, pod) in self.servers.iter().enumerate() {
            let cpu = self.queues.server_cpu.get(rank).copied().unwrap_or(0.0);
            reports.push((pod.uid, WorkerUse { cpu, times: BatchTimes::default() }, self.server_bytes(rank)));
        }
        for (uid, WorkerUse { cpu, times }, bytes) in reports {
            if !self.loads.contains_key(&uid) || !self.random.chance(LOST) {
                // Systems count processor time in hundredths of a second.
                let cpu = Duration::from_millis((cpu * 100.0) as u64 * 10);
                self.loads.insert(uid, PodLoad { at, cpu, bytes, times });
            }
        }
    }

    /// What the master sees.
    pub(super) fn sample(&self) -> Sample {
        let pod = |pod: &SimPod, role: &str, rank: usize| PodSample {
            name: name(&format!("job-{role}-{rank}")),
            uid: pod.uid.to_string(),
            role: role_name(role),
            allotment: pod.allotment,
            load: self.loads.get(&pod.uid).copied().filter(|_| pod.runs()),
        };
        let workers = self.workers.iter().enumerate().map(|(rank, of)| pod(of, "worker", rank));
        let servers = self.servers.iter().enumerate().map(|(rank, of)| pod(of, "ps", rank));
        let is_moving = self.now < self.moving_until;
        Sample {
            batches: self.queues.batches,
            steady: !self.is_open() && !is_moving && self.pods().all(SimPod::runs),
            workers: role("worker", self.wanted_workers, (0, MOST_WORKERS), self.worker_pod),
            servers: role("ps", self.wanted_servers, (1, MOST_SERVERS), self.server_pod),
            worker_pods: std::iter::once(pod(&self.chief, "chief", 0)).chain(workers).collect(),
            server_pods: Servers::Measured(servers.collect()),
            others: Allotment::default(),
            machine: self.shape.machine,
            ceiling: self.shape.ceiling,
            largest_pod: Ceiling::default(),
            plan: self.plan,
        }
    }
}

fn role(name: &str, replicas: u32, (min, max): (u32, u32), pod: Allotment) -> ScaledRole {
    let automatic = ReplicaRange::new(min, max).ok();
    ScaledRole { name: role_name(name), replicas, automatic, held_by: None, pod }
}

#[expect(clippy::expect_used, reason = "all names of the simulation are names")]
fn name(text: &str) -> ObjectName {
    text.parse().expect("a name of the simulation")
}

#[expect(clippy::expect_used, reason = "all names of the simulation are names")]
fn role_name(text: &str) -> RoleName {
    text.parse().expect("a name of the simulation")
}

impl Order {
    /// The order that carries out a proposal.
    pub(super) fn of(proposal: &Proposal, sample: &Sample) -> Self {
        let change = |role: &ScaledRole| proposal.roles.get(&role.name);
        let replicas = |role: &ScaledRole| change(role).and_then(|change| change.replicas);
        let pod = |role: &ScaledRole| {
            change(role).filter(|change| !change.resources.is_empty()).map(|change| (&change.resources).into())
        };
        let Servers::Measured(servers) = &sample.server_pods else { return Self::default() };
        let rank = |name: &ObjectName| servers.iter().position(|pod| pod.name == *name);
        let successors = proposal.migrate.iter().filter_map(|m| Some((rank(&m.pod)?, (&m.resources).into())));
        Self {
            workers: replicas(&sample.workers),
            servers: replicas(&sample.servers),
            worker_pod: pod(&sample.workers),
            server_pod: pod(&sample.servers),
            migrate_servers: successors.collect(),
        }
    }
}
