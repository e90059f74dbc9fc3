//! What a simulated job is like: its demands, its ceiling, its pods, how its load and its tables change.

use std::time::Duration;

use super::random::Random;
use crate::scaling::{Allotment, Ceiling, first_allotment};

const GIBIBYTE: f64 = (1_u64 << 30) as f64;

/// A job. Times are in seconds, work in core seconds for one batch.
#[derive(Debug, Clone)]
pub struct JobShape {
    pub seed: u64,
    /// Waiting for data.
    pub think: f64,
    /// Work of the worker.
    pub worker_work: f64,
    /// Work of all servers.
    pub server_work: f64,
    /// The part of that work that one server has whatever the number of servers: a hot partition.
    pub hot: f64,
    /// Work of something shared that reports nothing, and by how much each waiting worker prolongs it.
    pub unseen: Option<(f64, f64)>,
    /// The relative deviation of all work from second to second.
    pub noise: f64,
    /// By how much the work of servers has grown after `drift_until`, and since when it grows.
    pub drift: f64,
    pub drift_from: f64,
    pub drift_until: f64,
    pub ceiling: Ceiling,
    /// What the cluster has for the job.
    pub capacity: Ceiling,
    /// The cores of one machine that all pods share, in thousandths; else each pod is limited to its allotment.
    pub machine: Option<u64>,
    /// What pods request at first.
    pub pod: Allotment,
    /// Seconds until a pod runs.
    pub start: f64,
    pub table: Table,
}

/// Parameters in memory.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Bytes of all servers together at the end.
    pub bytes: f64,
    /// After this many batches, 63 % of them are there.
    pub batches: f64,
}

/// What a first batch adds to a table: 512 records of 26 categories, of which some are new, as rows of about 100 bytes.
const FEWEST_BYTES: f64 = 20_000.0;
const MOST_BYTES: f64 = 1_000_000.0;
/// What a server needs beside its part of the table.
const SERVER_BASE: f64 = 0.2 * GIBIBYTE;

impl JobShape {
    /// A random job.
    pub fn random(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5CA1_AB1E);
        let think = random.between(0.0, 0.045);
        let worker_work = random.log_between(0.001, 0.05);
        let server_work = worker_work * random.log_between(0.03, 2.0);
        let alone = think + worker_work + server_work;
        let unseen = random.chance(0.5).then(|| {
            let contention = if random.chance(0.5) { random.between(0.0, 0.05) } else { 0.0 };
            (alone * random.log_between(0.02, 0.3), contention)
        });
        let machine = random.chance(0.2).then(|| 1000 * random.between(2.0, 9.0) as u64);
        let cores = random.log_between(8.0, 60.0).floor();
        let memory_per_core = random.between(2.0, 6.0);
        let whole = |cores: f64, bytes: f64| Allotment { millicores: (1000.0 * cores) as u64, bytes: bytes as u64 };
        let ceiling = whole(cores, cores * memory_per_core * GIBIBYTE);
        let named =
            whole(random.between(1.0, 3.0).floor().max(1.0), memory_per_core * GIBIBYTE * random.between(0.4, 0.8));
        let pod = if random.chance(0.3) { first_allotment(ceiling.into(), None) } else { named };
        let is_small = random.chance(0.2);
        let capacity =
            if is_small { whole(cores * random.between(0.5, 0.9), f64::MAX).into() } else { Ceiling::default() };
        let drifts = random.chance(0.5);
        let drift_from = random.between(200.0, 400.0);
        let grows = random.chance(0.5);
        let most = if grows { random.between(0.1, 0.4) } else { 0.01 };
        let bytes = most * cores * memory_per_core * GIBIBYTE;
        let batches = bytes / random.log_between(FEWEST_BYTES, MOST_BYTES);
        Self {
            seed,
            think,
            worker_work,
            server_work,
            hot: if random.chance(0.5) { random.between(0.0, 0.3) } else { 0.0 },
            unseen,
            noise: random.between(0.02, 0.1),
            drift: if drifts { random.between(0.7, 1.4) } else { 1.0 },
            drift_from,
            drift_until: drift_from + random.between(60.0, 300.0),
            ceiling: ceiling.into(),
            capacity,
            machine,
            pod,
            start: random.between(2.0, 6.0),
            table: Table { bytes, batches },
        }
    }

    /// The factor of the servers' work at a time.
    pub(super) fn load(&self, at: Duration) -> f64 {
        let part = (at.as_secs_f64() - self.drift_from) / (self.drift_until - self.drift_from);
        1.0 + (self.drift - 1.0) * part.clamp(0.0, 1.0)
    }

    /// The part of all servers' work and data that a server has.
    pub(super) fn share(&self, server: usize, servers: usize) -> f64 {
        let even = (1.0 - self.hot) / servers as f64;
        if server == 0 { even + self.hot } else { even }
    }

    /// The memory of a server after some batches.
    pub(super) fn server_bytes(&self, batches: f64, server: usize, servers: usize) -> u64 {
        let filled = 1.0 - (-batches / self.table.batches).exp();
        (SERVER_BASE + self.table.bytes * filled * self.share(server, servers)) as u64
    }
}
