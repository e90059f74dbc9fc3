//! Synchronous mode: partitions buffer pushes until enough of them make one update.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

use super::{GradientsOutcome, Parameters};
use crate::batch::{BatchId, DatasetEpoch};
use crate::elasticdl::Refusal;
use crate::elasticdl::gradients::DecodedGradients;
use crate::partition::Divisors;
use crate::placement::PartitionId;

/// The epoch under which pushes are recorded: ElasticDL's protocol has neither datasets nor epochs.
const EPOCH: DatasetEpoch = DatasetEpoch { dataset: 0, epoch: 0 };

/// The step in progress.
#[derive(Debug, Default)]
pub(super) struct PendingStep {
    /// Pushes accepted by this server so far; each counts as one batch.
    accepted: u64,
    /// The buffered pushes.
    batches: Vec<BatchId>,
    /// The partitions with buffered gradients.
    partitions: BTreeSet<PartitionId>,
}

impl Parameters {
    pub(super) fn buffer(
        &self,
        gradients: &DecodedGradients,
        based_on: i32,
        requested: f32,
        grads_to_wait: NonZeroU32,
    ) -> Result<GradientsOutcome, Refusal> {
        let mut pending = self.pending_step.lock();
        let version = self.version();
        if !self.options.mode.accepts(based_on, version) {
            return Ok(GradientsOutcome { accepted: false, version, made_version: false });
        }
        let batch = BatchId { dataset: EPOCH.dataset, epoch: EPOCH.epoch, first: pending.accepted, len: 1 };
        let rate = self.options.mode.rate(requested, self.options.optimizer.learning_rate(), based_on, version);
        let buffered = gradients.with(rate, |push| {
            let checked = self.hosted.check(push)?;
            Ok(self.hosted.buffer(batch, &checked))
        })?;
        for (partition, outcome) in buffered {
            outcome?;
            pending.partitions.insert(partition);
        }
        pending.accepted += 1;
        pending.batches.push(batch);
        if pending.batches.len() < grads_to_wait.get() as usize {
            return Ok(GradientsOutcome { accepted: true, version, made_version: false });
        }
        let _guard = self.lock_updates();
        let divisors = Divisors { slices: grads_to_wait.get(), rows: 1 };
        for partition in std::mem::take(&mut pending.partitions) {
            self.hosted.with(partition, |of| of.commit(of.version(), &pending.batches, divisors, rate)).flatten()?;
        }
        pending.batches.clear();
        // None of these pushes comes again, so the history need not list them one by one.
        self.hosted.close(&[(EPOCH, 0..pending.accepted)]);
        let version = self.version.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        Ok(GradientsOutcome { accepted: true, version, made_version: true })
    }
}
