//! Application of updates: the hot path of a server.

use std::sync::Arc;

use flexor_model::Spans;

use super::{PartOutcome, Partition, PartitionError, PushOptions};
use crate::buckets::Buckets;
use crate::dense::Slice;
use crate::layout::{Layout, TableId};
use crate::optimizer::Step;
use crate::push::{CheckedPush, SliceGradient};
use crate::snapshot::Snapshots;
use crate::table::{RowMarks, RowMut, RowNumber, Table};

/// Buffers that are reused by every push.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    positions: Vec<u32>,
    pub(super) rows: Vec<RowNumber>,
    marks: RowMarks,
    sum: Vec<f32>,
}

/// Gradients of rows of one partition.
#[derive(Clone, Copy)]
pub(super) struct RowBatch<'a> {
    pub(super) table: TableId,
    pub(super) keys: &'a [u64],
    pub(super) buckets: &'a Buckets,
    pub(super) positions: &'a [u32],
    pub(super) gradients: &'a [f32],
}

impl Partition {
    /// Applies this partition's part of a push completely and once, or rejects it.
    pub fn push(&mut self, push: &CheckedPush<'_>, terms: PushOptions) -> Result<PartOutcome, PartitionError> {
        self.extend(&push.layout);
        if let Some(outcome) = self.check_history(push.batch)? {
            return Ok(outcome);
        }
        self.check_room(push)?;

        let layout = Arc::clone(&self.layout);
        let staleness = terms.based_on.map_or(0, |version| self.version.saturating_sub(version));
        let step = layout.kernel().step(layout.kernel().rate(push.learning_rate, staleness));
        self.version += 1;
        for rows in &push.rows {
            let mut unskipped = std::mem::take(&mut self.scratch.positions);
            let mut positions = rows.of.buckets.positions(self.id);
            if !rows.skipped.is_empty() {
                unskipped.clear();
                unskipped.extend(positions.iter().filter(|position| rows.skipped.binary_search(position).is_err()));
                positions = &unskipped;
            }
            let (table, keys, gradients) = (rows.of.table, rows.of.keys, rows.of.gradients);
            self.apply_rows(&layout, RowBatch { table, keys, buckets: rows.of.buckets, positions, gradients }, step);
            self.scratch.positions = unskipped;
        }
        self.apply_slices(push.slices(self.id), step);
        if let Some(batch) = push.batch {
            self.history.apply(batch, self.version);
        }
        Ok(PartOutcome::Applied { version: self.version })
    }

    /// Applies one optimizer step to each row. Missing rows are created.
    pub(super) fn apply_rows(&mut self, layout: &Layout, batch: RowBatch<'_>, step: Step<'_>) {
        let number = batch.table.0;
        let (Some(of), Some(table)) = (layout.table(batch.table), self.tables.get_mut(number as usize)) else { return };
        let (scratch, snapshots) = (&mut self.scratch, &mut self.snapshots);
        let initial_slot = layout.kernel().initial_slot();
        let keys = batch.positions.iter();
        let keys = keys.map(|position| (batch.buckets.key_hash(*position), batch.keys[*position as usize]));
        table.find_or_insert_all(keys, &of.initial, initial_slot, &mut scratch.rows);
        let gradient_of = |position: u32| &batch.gradients[position as usize * of.dim..][..of.dim];
        let pairs = scratch.rows.iter().copied().zip(batch.positions.iter().copied());
        if !scratch.marks.has_duplicates(&scratch.rows) {
            for (row, position) in pairs {
                step_row(table, number, row, snapshots, step, gradient_of(position));
            }
            return;
        }
        let mut pairs: Vec<(RowNumber, u32)> = pairs.collect();
        pairs.sort_unstable();
        for same in pairs.chunk_by(|(one, _), (other, _)| one == other) {
            scratch.sum.clear();
            for (_, position) in same {
                match scratch.sum.is_empty() {
                    true => scratch.sum.extend_from_slice(gradient_of(*position)),
                    false => add(&mut scratch.sum, gradient_of(*position)),
                }
            }
            step_row(table, number, same[0].0, snapshots, step, &scratch.sum);
        }
    }

    /// Applies one optimizer step to each slice with gradients. The gradients are sorted by slice.
    fn apply_slices<'a>(&mut self, gradients: impl Iterator<Item = SliceGradient<'a>>, step: Step<'_>) {
        let gradients: Vec<_> = gradients.collect();
        for same in gradients.chunk_by(|one, other| one.slice == other.slice) {
            let Some(index) = self.slice_index(same[0].slice) else { continue };
            match same {
                [only] => {
                    self.update_slice(index, |slice, t| {
                        step_range(slice, step, only.offset as usize, only.gradient, t);
                    });
                }
                several => {
                    let sum = SliceSum::of(several.iter().copied(), self.slices[index].1.len());
                    self.step_slice(index, step, &sum);
                }
            }
        }
    }

    /// Applies one optimizer step to the elements of a slice that a sum covers.
    pub(super) fn step_slice(&mut self, index: usize, step: Step<'_>, sum: &SliceSum) {
        self.update_slice(index, |slice, t| {
            for span in sum.covered.iter() {
                let span = span.start as usize..span.end as usize;
                step_range(slice, step, span.start, &sum.gradient[span.clone()], t);
            }
        });
    }

    /// Preserves a slice for snapshots, counts the step, and lets `apply` change the values.
    fn update_slice(&mut self, index: usize, apply: impl FnOnce(&mut Slice, u32)) {
        let slice = &mut self.slices[index].1;
        if slice.preserved_for < self.snapshots.latest() {
            self.snapshots.preserve_slice(index, slice);
        }
        slice.steps = slice.steps.saturating_add(1);
        slice.version = self.version;
        let t = slice.steps;
        apply(slice, t);
    }
}

/// The sum of the gradients of one slice, and the elements that have any.
pub(super) struct SliceSum {
    pub(super) gradient: Vec<f32>,
    covered: Spans,
}

impl SliceSum {
    pub(super) fn of<'a>(gradients: impl Iterator<Item = SliceGradient<'a>>, len: usize) -> Self {
        let mut sum = Self { gradient: vec![0.0; len], covered: Spans::default() };
        for SliceGradient { offset, gradient, .. } in gradients {
            let first = offset as usize;
            add(&mut sum.gradient[first..first + gradient.len()], gradient);
            sum.covered.insert(first as u64..(first + gradient.len()) as u64);
        }
        sum
    }
}

pub(super) fn add(sum: &mut [f32], more: &[f32]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

#[inline]
fn step_row(
    table: &mut Table,
    number: u32,
    row: RowNumber,
    snapshots: &mut Snapshots,
    step: Step<'_>,
    gradient: &[f32],
) {
    let RowMut { steps, values } = table.row_mut(row, number, snapshots);
    let t = steps.map_or(1, |steps| {
        *steps = steps.saturating_add(1);
        *steps
    });
    step.take(values, gradient.len(), 0..gradient.len(), gradient, t);
}

fn step_range(slice: &mut Slice, step: Step<'_>, first: usize, gradient: &[f32], t: u32) {
    let width = slice.len();
    step.take(slice.values_mut(), width, first..first + gradient.len(), gradient, t);
}
