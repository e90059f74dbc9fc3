//! Synchronous steps: contributions are buffered until their step is committed, and then applied together.
//!
//! The master decides which batches make a step and in which order they are added. The result therefore does not depend
//! on which worker computed a batch, or when.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::contribution::Contribution;
use super::update::{RowBatch, SliceSum, add};
use super::{PartOutcome, Partition, PartitionError, PushOptions};
use crate::batch::BatchId;
use crate::buckets::Buckets;
use crate::layout::{SliceId, TableId};
use crate::push::{CheckedPush, SliceGradient};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferOutcome {
    /// BufferOutcome until its step is committed.
    Waiting,
    /// A contribution of the batch was buffered earlier; it stays.
    AlreadyWaiting,
    /// The step of the batch was committed earlier.
    AlreadyApplied,
    /// The batch is in a closed range.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitOutcome {
    Applied {
        /// One more than the number of the step.
        version: u64,
    },
    /// The step was committed earlier.
    AlreadyApplied { version: u64 },
}

/// The divisors of a step's gradient sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisors {
    pub slices: u32,
    /// 1 in ElasticDL, which adds the gradients of rows.
    pub rows: u32,
}

impl Divisors {
    pub fn average(batches: u32) -> Self {
        Self { slices: batches, rows: batches }
    }
}

impl Partition {
    /// Buffers this partition's part of a push under `batch` until its step is committed. `batch` may differ from the
    /// batch of the push, which ElasticDL's pushes do not have.
    pub fn buffer(&mut self, batch: BatchId, push: &CheckedPush<'_>) -> Result<BufferOutcome, PartitionError> {
        self.extend(&push.layout);
        match self.check_history(Some(batch))? {
            Some(PartOutcome::AlreadyApplied { .. } | PartOutcome::Applied { .. }) => {
                return Ok(BufferOutcome::AlreadyApplied);
            }
            Some(PartOutcome::Closed) => return Ok(BufferOutcome::Closed),
            None => {}
        }
        if self.buffered.contains_key(&batch) {
            return Ok(BufferOutcome::AlreadyWaiting);
        }
        self.buffered.insert(batch, Arc::new(Contribution::of(push, self.id)));
        Ok(BufferOutcome::Waiting)
    }

    /// Applies this partition's part of a push at once, or buffers it for the step of its batch. With `based_on`, the
    /// learning rate is divided by the number of updates since that version.
    pub fn apply_or_buffer(
        &mut self,
        push: &CheckedPush<'_>,
        is_synchronous: bool,
        based_on: Option<u64>,
    ) -> Result<PartOutcome, PartitionError> {
        let Some(batch) = push.batch.filter(|_| is_synchronous) else {
            return self.push(push, PushOptions { based_on });
        };
        let version = self.version;
        Ok(match self.buffer(batch, push)? {
            BufferOutcome::Waiting => PartOutcome::Applied { version },
            BufferOutcome::AlreadyWaiting | BufferOutcome::AlreadyApplied => {
                PartOutcome::AlreadyApplied { version: Some(version) }
            }
            BufferOutcome::Closed => PartOutcome::Closed,
        })
    }

    /// Applies a push that the primary has applied. The master may have closed the batch before the replicated push
    /// arrives here. The primary has applied it, so the backup must apply it too.
    pub fn apply_replicated(
        &mut self,
        push: &CheckedPush<'_>,
        is_synchronous: bool,
        based_on: Option<u64>,
    ) -> Result<PartOutcome, PartitionError> {
        if let Some(batch) = push.batch {
            self.history.reopen(batch);
        }
        self.apply_or_buffer(push, is_synchronous, based_on)
    }

    /// Commits step `step`: adds the contributions of these batches in this order, divides the sums, and applies them
    /// as one update. Batches without gradients in this partition are recorded as applied too.
    pub fn commit(
        &mut self,
        step: u64,
        batches: &[BatchId],
        divisors: Divisors,
        learning_rate: f32,
    ) -> Result<CommitOutcome, PartitionError> {
        if self.version > step {
            return Ok(CommitOutcome::AlreadyApplied { version: self.version });
        }
        if self.version < step {
            return Err(PartitionError::OutOfOrder { partition: self.id, version: self.version, asked: step });
        }
        let contributions: Vec<_> = batches.iter().filter_map(|batch| self.buffered.get(batch).cloned()).collect();
        let rows = sum_rows(&contributions);
        self.check_room_for(&rows)?;

        let layout = Arc::clone(&self.layout);
        let optimizer_step = layout.kernel().step(layout.kernel().rate(learning_rate, 0));
        self.version = step + 1;
        for (table, mut sum) in rows {
            let Some(name) = layout.name_hash(table) else { continue };
            divide(&mut sum.gradients, divisors.rows);
            let buckets = Buckets::of(name, &sum.keys);
            let (keys, gradients, positions) = (&sum.keys[..], &sum.gradients[..], buckets.positions(self.id));
            self.apply_rows(&layout, RowBatch { table, keys, buckets: &buckets, positions, gradients }, optimizer_step);
        }
        for (slice, gradients) in slices_of(&contributions) {
            let Some(index) = self.slice_index(slice) else { continue };
            let mut sum = SliceSum::of(gradients.into_iter(), self.slices[index].1.len());
            divide(&mut sum.gradient, divisors.slices);
            self.step_slice(index, optimizer_step, &sum);
        }
        for batch in batches {
            self.buffered.remove(batch);
            self.history.apply(*batch, self.version);
        }
        Ok(CommitOutcome::Applied { version: self.version })
    }

    /// The batches with buffered contributions.
    pub fn waiting(&self) -> impl Iterator<Item = BatchId> + '_ {
        self.buffered.keys().copied()
    }

    fn check_room_for(&self, rows: &BTreeMap<TableId, RowSum>) -> Result<(), PartitionError> {
        let full = |(table, sum): &(&TableId, &RowSum)| {
            self.tables.get(table.0 as usize).is_none_or(|table| !table.has_room(sum.keys.len()))
        };
        match rows.iter().find(full) {
            None => Ok(()),
            Some((table, _)) => Err(PartitionError::Full { partition: self.id, table: *table }),
        }
    }
}

/// Sums of gradients by row.
#[derive(Default)]
struct RowSum {
    index_of_key: HashMap<u64, usize>,
    keys: Vec<u64>,
    gradients: Vec<f32>,
}

fn sum_rows(contributions: &[Arc<Contribution>]) -> BTreeMap<TableId, RowSum> {
    let mut sums: BTreeMap<TableId, RowSum> = BTreeMap::new();
    for part in contributions.iter().flat_map(|contribution| &contribution.rows) {
        let sum = sums.entry(part.table).or_default();
        let dim = part.gradients.len() / part.keys.len().max(1);
        for (key, gradient) in part.keys.iter().zip(part.gradients.chunks(dim.max(1))) {
            match sum.index_of_key.get(key) {
                Some(index) => add(&mut sum.gradients[index * dim..][..dim], gradient),
                None => {
                    sum.index_of_key.insert(*key, sum.keys.len());
                    sum.keys.push(*key);
                    sum.gradients.extend_from_slice(gradient);
                }
            }
        }
    }
    sums
}

fn slices_of(contributions: &[Arc<Contribution>]) -> BTreeMap<SliceId, Vec<SliceGradient<'_>>> {
    let mut slices: BTreeMap<SliceId, Vec<SliceGradient<'_>>> = BTreeMap::new();
    for part in contributions.iter().flat_map(|contribution| &contribution.slices) {
        slices.entry(part.slice).or_default().push(part.as_gradient());
    }
    slices
}

fn divide(sums: &mut [f32], by: u32) {
    if by > 1 {
        sums.iter_mut().for_each(|sum| *sum /= by as f32);
    }
}
