//! The queues of a job, played event by event.
//!
//! A batch is read (something unseen and shared, then waiting), pulled from all servers at once, computed, and pushed to
//! all servers at once. A server serves requests in the order of their arrival with as many threads as it has cores; a
//! fraction of a core slows all its threads. On a shared machine all work goes through the cores of the machine.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::random::Random;
use super::shape::JobShape;
use crate::scaling::BatchTimes;

/// Threads that serve in the order of arrival.
#[derive(Debug, Clone)]
struct Station {
    /// When each thread is free, in seconds.
    free: Vec<f64>,
    speed: f64,
}

/// What a worker has used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WorkerUse {
    pub(super) cpu: f64,
    pub(super) times: BatchTimes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Read,
    Pull,
    Compute,
    Push,
}

/// All queues of a job.
#[derive(Debug)]
pub(super) struct Queues<'a> {
    shape: &'a JobShape,
    random: Random,
    now: f64,
    /// Time in nanoseconds, worker, what begins.
    events: BinaryHeap<Reverse<(u64, u32, Phase)>>,
    workers: BTreeMap<u32, (f64, WorkerUse)>,
    servers: Vec<Station>,
    /// Core seconds of each server.
    pub(super) server_cpu: Vec<f64>,
    machine: Option<Station>,
    unseen: Station,
    /// The factor of the servers' work.
    pub(super) load: f64,
    /// The factor of all work in this second.
    pub(super) noise: f64,
    pub(super) batches: u64,
}

impl Station {
    fn new(cores: f64) -> Self {
        let threads = cores.ceil().max(1.0);
        Self { free: vec![0.0; threads as usize], speed: cores / threads }
    }

    /// When work that arrives is done.
    fn serve(&mut self, at: f64, work: f64) -> f64 {
        let first = (0..self.free.len()).min_by(|a, b| self.free[*a].total_cmp(&self.free[*b])).unwrap_or(0);
        let done = self.free[first].max(at) + work / self.speed;
        self.free[first] = done;
        done
    }
}

impl<'a> Queues<'a> {
    pub(super) fn new(shape: &'a JobShape, seed: u64) -> Self {
        Self {
            shape,
            random: Random::new(seed),
            now: 0.0,
            events: BinaryHeap::new(),
            workers: BTreeMap::new(),
            servers: Vec::new(),
            server_cpu: Vec::new(),
            machine: shape.machine.map(|millicores| Station::new(millicores as f64 / 1000.0)),
            unseen: Station::new(1.0),
            load: 1.0,
            noise: 1.0,
            batches: 0,
        }
    }

    /// Sets the workers, by their numbers and cores. Those that are there go on.
    pub(super) fn set_workers(&mut self, wanted: &[(u32, f64)]) {
        self.workers.retain(|number, _| wanted.iter().any(|(other, _)| other == number));
        for (number, cores) in wanted {
            if !self.workers.contains_key(number) {
                self.workers.insert(*number, (*cores, WorkerUse::default()));
                self.push(self.now, *number, Phase::Read);
            }
        }
    }

    /// Sets the servers, by their cores. Requests wait for `freeze` seconds.
    pub(super) fn set_servers(&mut self, cores: &[f64], freeze: f64) {
        self.servers = cores.iter().map(|cores| Station::new(*cores)).collect();
        self.servers.iter_mut().flat_map(|server| &mut server.free).for_each(|free| *free = self.now + freeze);
        self.server_cpu.resize(cores.len(), 0.0);
    }

    pub(super) fn used(&self, worker: u32) -> WorkerUse {
        self.workers.get(&worker).map(|(_, used)| *used).unwrap_or_default()
    }

    /// Plays until a time in seconds.
    pub(super) fn play_until(&mut self, end: f64) {
        while let Some(Reverse((nanos, worker, phase))) = self.events.peek().copied() {
            let at = nanos as f64 * 1e-9;
            if at >= end {
                break;
            }
            self.events.pop();
            self.begin(at, worker, phase);
        }
        self.now = end;
    }

    fn push(&mut self, at: f64, worker: u32, phase: Phase) {
        self.events.push(Reverse(((at * 1e9) as u64, worker, phase)));
    }

    fn begin(&mut self, at: f64, number: u32, phase: Phase) {
        let Some((cores, _)) = self.workers.get(&number).copied() else { return };
        let shape = self.shape;
        let (done, next, cpu) = match phase {
            Phase::Read => (self.read(at), Phase::Pull, 0.0),
            Phase::Pull => (self.ask_servers(at), Phase::Compute, 0.0),
            Phase::Compute => {
                let work = shape.worker_work * self.noise * self.random.service();
                let alone = at + work / cores.min(1.0);
                (self.machine.as_mut().map_or(alone, |machine| machine.serve(at, work)), Phase::Push, work)
            }
            Phase::Push => (self.ask_servers(at), Phase::Read, 0.0),
        };
        self.batches += u64::from(phase == Phase::Push);
        if let Some((_, used)) = self.workers.get_mut(&number) {
            let took = Duration::from_secs_f64(done - at);
            let BatchTimes { read, pull, compute, push, .. } = &mut used.times;
            match phase {
                Phase::Read => *read += took,
                Phase::Pull => *pull += took,
                Phase::Compute => *compute += took,
                Phase::Push => *push += took,
            }
            used.cpu += cpu;
        }
        self.push(done, number, next);
    }

    fn read(&mut self, at: f64) -> f64 {
        let there = match self.shape.unseen {
            Some((work, contention)) => {
                let waiting = ((self.unseen.free[0] - at) / work).max(0.0);
                let work = work * self.noise * self.random.service() * (1.0 + contention * waiting);
                self.unseen.serve(at, work)
            }
            None => at,
        };
        there + self.shape.think * self.noise * (0.5 + 0.5 * self.random.service())
    }

    /// When the slowest server has answered. A pull and a push are half of the work each.
    fn ask_servers(&mut self, at: f64) -> f64 {
        let count = self.servers.len();
        let mut slowest = at;
        for server in 0..count {
            let mean = 0.5 * self.shape.server_work * self.shape.share(server, count) * self.load * self.noise;
            let work = mean * self.random.service();
            self.server_cpu[server] += work;
            let station = self.machine.as_mut().unwrap_or(&mut self.servers[server]);
            slowest = slowest.max(station.serve(at, work));
        }
        slowest
    }
}
