//! Synchronous training: commits steps on every partition here on the master's order.
//!
//! The gradients of a step were pushed before and are buffered in the partition, on primary and backup alike. The master
//! decides the order in which they are added. So each replica commits a step by itself, with the same result. The master
//! sends the batches of the last step; a server that misses some requests them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flexor_wire::master::v1 as master;
use flexor_wire::ps::v1 as wire;

use super::Server;
use super::replica_state::ReplicaRole;
use crate::batch::BatchId;
use crate::partition::{Divisors, Partition};
use crate::placement::PartitionId;

/// How many steps back the batches are remembered, for partitions that arrive late.
const REMEMBERED: u64 = 1024;
/// How long a pull waits for its step before the client has to retry.
const PULL_WAIT: Duration = Duration::from_secs(1);

/// Stands for the rewind epoch while some partitions are rewound and others are not.
const REWINDING: u64 = u64::MAX;

/// The committed steps since the last rewind.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Map epoch of the last rewind. Steps of different rewinds do not compare.
    rewind_epoch: u64,
    committed: u64,
    batches: BTreeMap<u64, Arc<[BatchId]>>,
    /// The first step of the last request to the master.
    requested: Option<u64>,
}

impl Server {
    /// Starts a rewind, if the epoch is new. Until every partition is rewound, synchronous requests are not answered.
    pub(super) fn start_rewind(&self, rewind_epoch: u64) {
        let mut steps = self.0.steps.lock();
        if steps.rewind_epoch != rewind_epoch {
            *steps = Steps { rewind_epoch, ..Steps::default() };
            self.0.rewind_epoch.store(REWINDING, Ordering::Release);
            self.0.reached.store(0, Ordering::Release);
        }
    }

    /// Every partition is rewound.
    pub(super) fn finish_rewind(&self, rewind_epoch: u64) {
        self.0.rewind_epoch.store(rewind_epoch, Ordering::Release);
    }

    /// Takes over the master's committed steps, and commits them.
    pub fn record_committed_steps(&self, committed: &master::CommittedSteps) {
        {
            let mut steps = self.0.steps.lock();
            if committed.rewind_epoch != steps.rewind_epoch {
                return;
            }
            steps.committed = steps.committed.max(committed.committed);
            steps.requested = None;
            for step in &committed.steps {
                let of = |batch: &master::StepBatch| BatchId {
                    dataset: step.dataset,
                    epoch: step.epoch,
                    first: batch.first,
                    len: batch.records,
                };
                steps.batches.insert(step.step, step.batches.iter().map(of).collect());
            }
        }
        self.commit_steps();
    }

    /// Brings all partitions to the last committed step.
    pub(super) fn commit_steps(&self) {
        let Some(hosted) = self.0.hosted.get() else { return };
        let mut steps = self.0.steps.lock();
        if steps.committed == 0 {
            return;
        }
        let (mut lowest, mut is_complete) = (steps.committed, true);
        for id in PartitionId::all() {
            let replica = self.0.replicas.lock(id);
            is_complete &= !replica.is_restoring;
            if replica.role == ReplicaRole::Absent || replica.is_restoring {
                continue;
            }
            if let Ok(version) = hosted.with(id, |partition| steps.catch_up(partition)) {
                lowest = lowest.min(version);
            }
        }
        let missing = (lowest < steps.committed).then_some(lowest);
        if let Some(first) = missing
            && std::mem::replace(&mut steps.requested, missing) != missing
        {
            self.report(master::from_server::Message::RequestSteps(master::RequestSteps { first }));
        }
        let forgotten = lowest.saturating_sub(REMEMBERED);
        steps.batches = steps.batches.split_off(&forgotten);
        // A partition that is being restored is at no step yet.
        self.0.reached.store(if is_complete { lowest } else { 0 }, Ordering::Release);
        drop(steps);
        self.0.changed.notify_waiters();
    }

    /// Waits briefly until every partition here has reached a step. This server may not know the rewind yet. A later rewind
    /// ends the wait. A partition that arrives later may be behind, so readers check its version again.
    pub(super) async fn wait_for_step(&self, step: wire::AtStep) -> Result<(), wire::not_yet::Why> {
        let is_decided = || match self.rewind_epoch() {
            Some(known) if known == step.rewind_epoch => self.0.reached.load(Ordering::Acquire) >= step.steps,
            Some(known) => known > step.rewind_epoch,
            None => false,
        };
        if !is_decided() {
            // The checks below decide, whether or not the time was enough.
            let _ = tokio::time::timeout(PULL_WAIT, self.wait_until(is_decided)).await;
        }
        self.check_rewind_epoch(step)?;
        match self.0.reached.load(Ordering::Acquire) >= step.steps {
            true => Ok(()),
            false => Err(wire::not_yet::Why::StepNotCommitted(true)),
        }
    }

    /// Checks that the last rewind is the one that the step counts from.
    pub(super) fn check_rewind_epoch(&self, step: wire::AtStep) -> Result<(), wire::not_yet::Why> {
        match self.rewind_epoch() {
            Some(known) if known == step.rewind_epoch => Ok(()),
            known => Err(wire::not_yet::Why::RewindEpoch(known.unwrap_or(0))),
        }
    }

    /// Map epoch of the last rewind that this server knows; none while it rewinds.
    pub(super) fn rewind_epoch(&self) -> Option<u64> {
        Some(self.0.rewind_epoch.load(Ordering::Acquire)).filter(|rewind_epoch| *rewind_epoch != REWINDING)
    }
}

impl Steps {
    /// Commits all steps whose batches are known; returns the step that the partition has reached.
    fn catch_up(&self, partition: &mut Partition) -> u64 {
        while partition.version() < self.committed {
            let step = partition.version();
            let Some(batches) = self.batches.get(&step) else { break };
            let divisors = Divisors::average(u32::try_from(batches.len()).unwrap_or(u32::MAX));
            if let Err(error) = partition.commit(step, batches, divisors, 0.0) {
                tracing::error!(step, %error, "a step cannot be committed");
                break;
            }
        }
        partition.version()
    }
}
