//! Synchronous mode: pushes wait in their partitions until there are enough of them, then they are one update.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;

use super::{Parameters, PushOutcome};
use crate::batch::{BatchId, Pass};
use crate::elasticdl::Refusal;
use crate::elasticdl::gradients::Gradients;
use crate::partition::Divisors;
use crate::placement::PartitionId;

/// The pass under which pushes are remembered; this wire knows neither datasets nor epochs.
const PASS: Pass = Pass { dataset: 0, epoch: 0 };

/// The step that is being gathered.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// How many pushes were taken in the life of this server; each is a batch of its own.
    taken: u64,
    /// Those that wait.
    batches: Vec<BatchId>,
    /// The partitions in which they do.
    partitions: BTreeSet<PartitionId>,
}

impl Parameters {
    pub(super) fn gather(
        &self,
        gradients: &Gradients,
        based_on: i32,
        asked: f32,
        wanted: NonZeroU32,
    ) -> Result<PushOutcome, Refusal> {
        let mut waiting = self.waiting.lock();
        let version = self.version();
        if !self.options.mode.takes(based_on, version) {
            return Ok(PushOutcome { accepted: false, version, made_version: false });
        }
        let batch = BatchId { dataset: PASS.dataset, epoch: PASS.epoch, first: waiting.taken, len: 1 };
        let rate = self.options.mode.rate(asked, self.options.optimizer.learning_rate(), based_on, version);
        let buffered = gradients.with(rate, |push| {
            let checked = self.hosted.check(push)?;
            Ok(self.hosted.buffer(batch, &checked))
        })?;
        for (partition, kept) in buffered {
            kept?;
            waiting.partitions.insert(partition);
        }
        waiting.taken += 1;
        waiting.batches.push(batch);
        if waiting.batches.len() < wanted.get() as usize {
            return Ok(PushOutcome { accepted: true, version, made_version: false });
        }
        let _still = self.hold_still();
        let divisors = Divisors { slices: wanted.get(), rows: 1 };
        for partition in std::mem::take(&mut waiting.partitions) {
            self.hosted.with(partition, |of| of.commit(of.version(), &waiting.batches, divisors, rate)).flatten()?;
        }
        waiting.batches.clear();
        // None of them comes again, so that none has to be remembered by itself.
        self.hosted.close(&[(PASS, 0..waiting.taken)]);
        let version = self.version.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        Ok(PushOutcome { accepted: true, version, made_version: true })
    }
}
