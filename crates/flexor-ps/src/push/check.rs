//! Validation of a push against the model.

use std::ops::Range;
use std::sync::Arc;

use super::{BadRequest, NonFinite, Push, RowGradients, RowKeys, SliceGradient};
use crate::batch::BatchId;
use crate::buckets::Buckets;
use crate::layout::{Layout, TableId};
use crate::placement::{PARTITIONS, PartitionId};

/// A push that was validated against the model.
#[derive(Debug)]
pub struct CheckedPush<'a> {
    pub(crate) layout: Arc<Layout>,
    pub(crate) batch: Option<BatchId>,
    pub(crate) learning_rate: f32,
    pub(crate) rows: Vec<CheckedRows<'a>>,
    /// Sorted by partition, slice and offset.
    slices: Vec<(PartitionId, SliceGradient<'a>)>,
    /// Partitions of skipped slices. Such a partition records the batch like any other, but takes no step.
    skipped_in: Vec<PartitionId>,
    skipped: u64,
}

/// Validated gradients of rows.
#[derive(Debug, Clone)]
pub(crate) struct CheckedRows<'a> {
    pub(crate) of: RowGradients<'a>,
    pub(crate) dim: usize,
    /// Positions of skipped rows, ascending.
    pub(crate) skipped: Vec<u32>,
}

impl<'a> CheckedPush<'a> {
    /// Validates a push without changing any state.
    pub fn new(layout: &Arc<Layout>, push: &Push<'a>) -> Result<Self, BadRequest> {
        if push.batch.is_some_and(|batch| batch.len == 0) {
            return Err(BadRequest::EmptyBatch);
        }
        if !push.learning_rate.is_finite() {
            return Err(BadRequest::LearningRate(push.learning_rate));
        }
        let mut skipped = 0;
        let mut rows = Vec::with_capacity(push.rows.len());
        for of in push.rows {
            let checked = check_rows(layout, of, push.non_finite)?;
            skipped += checked.skipped.len() as u64;
            rows.push(checked);
        }
        let (mut slices, mut skipped_in) = (Vec::with_capacity(push.slices.len()), Vec::new());
        for of in push.slices {
            let partition = check_slice(layout, of)?;
            match (all_finite(of.gradient), push.non_finite) {
                (true, _) => slices.push((partition, *of)),
                (false, NonFinite::Skip) => {
                    skipped += 1;
                    skipped_in.push(partition);
                }
                (false, NonFinite::Refuse) => {
                    let name = layout.spec().variables[of.slice.variable as usize].name.clone();
                    return Err(BadRequest::NotFinite { name, what: of.slice.to_string() });
                }
            }
        }
        slices.sort_by_key(|(partition, of)| (*partition, of.slice, of.offset));
        let (layout, batch, learning_rate) = (Arc::clone(layout), push.batch, push.learning_rate);
        Ok(Self { layout, batch, learning_rate, rows, slices, skipped_in, skipped })
    }

    /// Rows and slices that are skipped because their gradients are not finite.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    pub fn row_count(&self) -> usize {
        self.rows.iter().map(|rows| rows.of.keys.len()).sum()
    }

    /// The partitions that the push touches, ascending.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        let mut has = [false; PARTITIONS];
        let of_slices = self.slices.iter().map(|(partition, _)| partition);
        of_slices.chain(&self.skipped_in).for_each(|partition| has[partition.index()] = true);
        for rows in &self.rows {
            rows.of.buckets.partitions().for_each(|partition| has[partition.index()] = true);
        }
        PartitionId::all().filter(move |partition| has[partition.index()])
    }

    /// The slice gradients of a partition, sorted by slice and offset.
    pub(crate) fn slices(&self, partition: PartitionId) -> impl Iterator<Item = SliceGradient<'a>> + Clone {
        let from = self.slices.partition_point(|(of, _)| *of < partition);
        let until = self.slices.partition_point(|(of, _)| *of <= partition);
        self.slices[from..until].iter().map(|(_, slice)| *slice)
    }
}

impl RowKeys<'_> {
    /// Validates the keys. Returns how many values the answer has.
    pub fn check(&self, layout: &Layout) -> Result<usize, BadRequest> {
        let dim = dim_of(layout, self.table)?;
        check_buckets(layout, self.table, self.keys, self.buckets)?;
        Ok(self.keys.len() * dim)
    }
}

fn dim_of(layout: &Layout, table: TableId) -> Result<usize, BadRequest> {
    layout.dim(table).ok_or(BadRequest::UnknownTable { table, tables: layout.tables().len() })
}

fn check_buckets(layout: &Layout, table: TableId, keys: &[u64], buckets: &Buckets) -> Result<(), BadRequest> {
    match keys.len() == buckets.keys() {
        true => Ok(()),
        false => Err(BadRequest::Buckets { table: name_of(layout, table), keys: keys.len(), sorted: buckets.keys() }),
    }
}

fn name_of(layout: &Layout, table: TableId) -> String {
    layout.spec().tables[table.0 as usize].name.clone()
}

fn check_rows<'a>(
    layout: &Layout,
    of: &RowGradients<'a>,
    non_finite: NonFinite,
) -> Result<CheckedRows<'a>, BadRequest> {
    let dim = dim_of(layout, of.table)?;
    check_buckets(layout, of.table, of.keys, of.buckets)?;
    if of.keys.len() * dim != of.gradients.len() {
        let (table, keys, values) = (name_of(layout, of.table), of.keys.len(), of.gradients.len());
        return Err(BadRequest::Width { table, dim, keys, values });
    }
    let skipped = match all_finite(of.gradients) {
        true => Vec::new(),
        false => {
            let rows = (0..).zip(of.gradients.chunks(dim));
            rows.filter(|(_, row)| !all_finite(row)).map(|(position, _)| position).collect()
        }
    };
    match (non_finite, skipped.first()) {
        (NonFinite::Refuse, Some(position)) => {
            let what = format!("row of key {}", of.keys[*position as usize]);
            Err(BadRequest::NotFinite { name: name_of(layout, of.table), what })
        }
        (NonFinite::Skip, _) | (NonFinite::Refuse, None) => Ok(CheckedRows { of: *of, dim, skipped }),
    }
}

fn check_slice(layout: &Layout, of: &SliceGradient<'_>) -> Result<PartitionId, BadRequest> {
    let unknown = || BadRequest::UnknownSlice(of.slice);
    let partition = layout.partition_of(of.slice).ok_or_else(unknown)?;
    let Range { start, end } = layout.elements(of.slice).ok_or_else(unknown)?;
    let len = end - start;
    match !of.gradient.is_empty() && u64::from(of.offset) + of.gradient.len() as u64 <= len {
        true => Ok(partition),
        false => {
            let variable = layout.spec().variables[of.slice.variable as usize].name.clone();
            let given = of.gradient.len();
            Err(BadRequest::SliceRange { slice: of.slice, variable, len, offset: of.offset, given })
        }
    }
}

/// Whether no value is NaN or infinite. Eight at a time, so that the compiler vectorises it.
fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7F80_0000;
    let not_finite = |value: &f32| u32::from(value.to_bits() & EXPONENT == EXPONENT);
    let (chunks, rest) = values.as_chunks::<8>();
    let mut found = [0_u32; 8];
    for chunk in chunks {
        found.iter_mut().zip(chunk).for_each(|(found, value)| *found |= not_finite(value));
    }
    found == [0; 8] && rest.iter().all(|value| not_finite(value) == 0)
}
