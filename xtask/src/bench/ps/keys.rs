//! The keys of the requested rows.

use std::collections::HashSet;
use std::fmt;

/// How many rows are there for pulls and pushes.
pub(super) const PRESENT: u64 = 400_000;
/// How many more are asked for the first time, at most.
const NEW: u64 = 400_000;
/// How many different requests a client has at most: enough that no cache holds all of their rows.
const REQUESTS: usize = 12;

/// How keys are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    Uniform,
    /// As in a click log: the third power of a uniform number.
    Skewed,
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Skewed => "skewed",
        })
    }
}

impl Keys {
    /// Requests of one client for rows that are there. No key is in a request twice: workers see to that.
    pub(super) fn requests(self, batch: usize, client: usize) -> Vec<Vec<i64>> {
        let mut random = Random(client as u64 + 1);
        let count = (REQUESTS * 10_000 / batch).clamp(4, REQUESTS * 4);
        let request = |_| {
            let mut met = HashSet::with_capacity(batch);
            let drawn = (0..).map(|_| match self {
                Self::Uniform => (random.unit() * PRESENT as f64) as i64,
                Self::Skewed => (random.unit().powi(3) * PRESENT as f64) as i64,
            });
            match self {
                Self::Uniform => drawn.filter(|key| met.insert(*key)).take(batch).collect(),
                // Duplicates are removed, so these requests are shorter.
                Self::Skewed => drawn.take(batch).filter(|key| met.insert(*key)).collect(),
            }
        };
        (0..count).map(request).collect()
    }
}

/// All rows that are there, each once: one client's share of them.
pub(super) fn present(batch: usize, client: usize, clients: usize) -> Vec<Vec<i64>> {
    shares(0, PRESENT, batch, client, clients)
}

/// Rows that do not exist yet.
pub(super) fn new(batch: usize, client: usize, clients: usize) -> Vec<Vec<i64>> {
    shares(0, NEW, batch, client, clients)
}

fn shares(first: u64, count: u64, batch: usize, client: usize, clients: usize) -> Vec<Vec<i64>> {
    let starts = (first..first + count).step_by(batch).skip(client).step_by(clients);
    starts.map(|start| (start as i64..(start + batch as u64).min(first + count) as i64).collect()).collect()
}

/// Pseudo-random numbers with a fixed seed.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}
