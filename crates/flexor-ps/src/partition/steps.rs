//! Synchronous mode: contributions wait for the step that they belong to, and are applied together.
//!
//! The master decides which batches make a step and in which order they are added; so the result does not depend on
//! which worker computed what, or when.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::applying::{RowBatch, SliceSum, add};
use super::contribution::Contribution;
use super::{Partition, Pushed, Terms, Turned};
use crate::batch::BatchId;
use crate::buckets::Buckets;
use crate::layout::{SliceId, TableId};
use crate::push::{CheckedPush, SliceGradient};

/// What became of a contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffered {
    /// It waits for its step.
    Waiting,
    /// The batch's contribution waited already; the first one stays.
    AlreadyWaiting,
    /// Its step was committed.
    AlreadyApplied,
    /// It was acknowledged long ago.
    Closed,
}

/// What became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The step was taken.
    Applied {
        /// The version after it: one more than the step's number.
        version: u64,
    },
    /// It was taken before.
    AlreadyApplied {
        /// The version as it is.
        version: u64,
    },
}

/// By what the sums of a step are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisors {
    /// Those of dense slices.
    pub slices: u32,
    /// Those of rows. ElasticDL does not divide them.
    pub rows: u32,
}

impl Divisors {
    /// Averages over so many batches.
    pub fn average(batches: u32) -> Self {
        Self { slices: batches, rows: batches }
    }
}

impl Partition {
    /// Keeps this partition's part of a push until its step is committed. A push without a batch waits for nothing and
    /// is kept under the batch given here.
    pub fn buffer(&mut self, batch: BatchId, push: &CheckedPush<'_>) -> Result<Buffered, Turned> {
        self.extend(&push.layout);
        match self.standing(Some(batch))? {
            Some(Pushed::AlreadyApplied { .. } | Pushed::Applied { .. }) => return Ok(Buffered::AlreadyApplied),
            Some(Pushed::Closed) => return Ok(Buffered::Closed),
            None => {}
        }
        if self.buffered.contains_key(&batch) {
            return Ok(Buffered::AlreadyWaiting);
        }
        self.buffered.insert(batch, Arc::new(Contribution::of(push, self.id)));
        Ok(Buffered::Waiting)
    }

    /// Takes this partition's part of a push: at once, or for the step that its batch belongs to. One that says which
    /// version it was computed with takes a smaller step the more has changed since.
    pub fn take(&mut self, push: &CheckedPush<'_>, in_step: bool, based_on: Option<u64>) -> Result<Pushed, Turned> {
        let Some(batch) = push.batch.filter(|_| in_step) else {
            return self.push(push, Terms { based_on });
        };
        let version = self.version;
        Ok(match self.buffer(batch, push)? {
            Buffered::Waiting => Pushed::Applied { version },
            Buffered::AlreadyWaiting | Buffered::AlreadyApplied => Pushed::AlreadyApplied { version },
            Buffered::Closed => Pushed::Closed,
        })
    }

    /// Takes over what the owner of this copy has taken. The master may have said that the batch is closed before the
    /// change has come here: the owner has it, so that it is to be here too.
    pub fn take_over(
        &mut self,
        push: &CheckedPush<'_>,
        in_step: bool,
        based_on: Option<u64>,
    ) -> Result<Pushed, Turned> {
        if let Some(batch) = push.batch {
            self.history.reopen(batch);
        }
        self.take(push, in_step, based_on)
    }

    /// Takes step number `step`: adds the contributions of these batches in this order, divides, and applies the result
    /// as one update. Batches that have nothing here count all the same.
    pub fn commit(
        &mut self,
        step: u64,
        batches: &[BatchId],
        divisors: Divisors,
        learning_rate: f32,
    ) -> Result<Committed, Turned> {
        if self.version > step {
            return Ok(Committed::AlreadyApplied { version: self.version });
        }
        if self.version < step {
            return Err(Turned::OutOfOrder { partition: self.id, version: self.version, asked: step });
        }
        let contributions: Vec<_> = batches.iter().filter_map(|batch| self.buffered.get(batch).cloned()).collect();
        let rows = sum_rows(&contributions);
        self.check_room_for(&rows)?;

        let layout = Arc::clone(&self.layout);
        let taken = layout.kernel().step(layout.kernel().rate(learning_rate, 0));
        self.version = step + 1;
        for (table, mut sum) in rows {
            let Some(name) = layout.name_hash(table) else { continue };
            divide(&mut sum.gradients, divisors.rows);
            let buckets = Buckets::of(name, &sum.keys);
            let (keys, gradients, positions) = (&sum.keys[..], &sum.gradients[..], buckets.positions(self.id));
            self.apply_rows(&layout, RowBatch { table, keys, buckets: &buckets, positions, gradients }, taken);
        }
        for (slice, gradients) in slices_of(&contributions) {
            let Some(place) = self.place_of(slice) else { continue };
            let mut sum = SliceSum::of(gradients.into_iter(), self.slices[place].1.len());
            divide(&mut sum.gradient, divisors.slices);
            self.step_slice(place, taken, &sum);
        }
        for batch in batches {
            self.buffered.remove(batch);
            self.history.apply(*batch);
        }
        Ok(Committed::Applied { version: self.version })
    }

    /// The batches whose contributions wait.
    pub fn waiting(&self) -> impl Iterator<Item = BatchId> + '_ {
        self.buffered.keys().copied()
    }

    fn check_room_for(&self, rows: &BTreeMap<TableId, RowSum>) -> Result<(), Turned> {
        let full = |(table, sum): &(&TableId, &RowSum)| {
            self.tables.get(table.0 as usize).is_none_or(|table| !table.has_room(sum.keys.len()))
        };
        match rows.iter().find(full) {
            None => Ok(()),
            Some((table, _)) => Err(Turned::Full { partition: self.id, table: *table }),
        }
    }
}

/// Sums of gradients by row.
#[derive(Default)]
struct RowSum {
    places: HashMap<u64, usize>,
    keys: Vec<u64>,
    gradients: Vec<f32>,
}

fn sum_rows(contributions: &[Arc<Contribution>]) -> BTreeMap<TableId, RowSum> {
    let mut sums: BTreeMap<TableId, RowSum> = BTreeMap::new();
    for part in contributions.iter().flat_map(|contribution| &contribution.rows) {
        let sum = sums.entry(part.table).or_default();
        let dim = part.gradients.len() / part.keys.len().max(1);
        for (key, gradient) in part.keys.iter().zip(part.gradients.chunks(dim.max(1))) {
            match sum.places.get(key) {
                Some(place) => add(&mut sum.gradients[place * dim..][..dim], gradient),
                None => {
                    sum.places.insert(*key, sum.keys.len());
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
