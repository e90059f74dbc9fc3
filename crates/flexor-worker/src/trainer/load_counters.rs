//! What a worker uses, and where the time of its batches goes, counted since it started.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use flexor_ps::process_usage;
use flexor_wire::master::v1 as wire;

/// A part of the work on a batch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// Also waiting for data that is far away.
    Read,
    Pull,
    Compute,
    Push,
    Acknowledge,
}

/// Shared by the tasks that work on batches.
#[derive(Debug, Default)]
pub(super) struct LoadCounters {
    batches: AtomicU64,
    micros: [AtomicU64; 5],
}

impl LoadCounters {
    /// Adds the time since a part began.
    pub(super) fn add(&self, part: Part, began: Instant) {
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.micros[part as usize].fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a batch that was acknowledged.
    pub(super) fn finish_batch(&self) {
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    /// For the master.
    pub(super) fn report(&self) -> wire::WorkerLoad {
        let [read_us, pull_us, compute_us, push_us, acknowledge_us] =
            [Part::Read, Part::Pull, Part::Compute, Part::Push, Part::Acknowledge]
                .map(|part| self.micros[part as usize].load(Ordering::Relaxed));
        wire::WorkerLoad {
            batches: self.batches.load(Ordering::Relaxed),
            cpu_us: process_usage::cpu_us(),
            memory: process_usage::memory_bytes(),
            read_us,
            pull_us,
            compute_us,
            push_us,
            acknowledge_us,
        }
    }
}
