//! The check of a push against the model.

use std::ops::Range;
use std::sync::Arc;

use super::{BadRequest, NonFinite, Push, RowGradients, SliceGradient, Wanted};
use crate::batch::BatchId;
use crate::buckets::Buckets;
use crate::layout::{Layout, TableId};
use crate::placement::{PARTITIONS, PartitionId};

/// A push that fits the model.
#[derive(Debug)]
pub struct CheckedPush<'a> {
    pub(crate) layout: Arc<Layout>,
    pub(crate) batch: Option<BatchId>,
    pub(crate) learning_rate: f32,
    pub(crate) rows: Vec<Rows<'a>>,
    /// Sorted by partition, slice and offset.
    slices: Vec<(PartitionId, SliceGradient<'a>)>,
    /// Where slices live that are left out: such a partition takes the push like any other, and no step.
    left_out_of: Vec<PartitionId>,
    left_out: u64,
}

/// Gradients of rows that fit.
#[derive(Debug, Clone)]
pub(crate) struct Rows<'a> {
    pub(crate) of: RowGradients<'a>,
    pub(crate) dim: usize,
    /// Positions of those that are left out, in order.
    pub(crate) left_out: Vec<u32>,
}

impl<'a> CheckedPush<'a> {
    /// Checks a push; nothing is changed by one that is refused.
    pub fn new(layout: &Arc<Layout>, push: &Push<'a>) -> Result<Self, BadRequest> {
        if push.batch.is_some_and(|batch| batch.len == 0) {
            return Err(BadRequest::EmptyBatch);
        }
        if !push.learning_rate.is_finite() {
            return Err(BadRequest::LearningRate(push.learning_rate));
        }
        let mut left_out = 0;
        let mut rows = Vec::with_capacity(push.rows.len());
        for of in push.rows {
            let checked = check_rows(layout, of, push.non_finite)?;
            left_out += checked.left_out.len() as u64;
            rows.push(checked);
        }
        let (mut slices, mut left_out_of) = (Vec::with_capacity(push.slices.len()), Vec::new());
        for of in push.slices {
            let partition = check_slice(layout, of)?;
            match (all_finite(of.gradient), push.non_finite) {
                (true, _) => slices.push((partition, *of)),
                (false, NonFinite::LeaveOut) => {
                    left_out += 1;
                    left_out_of.push(partition);
                }
                (false, NonFinite::Refuse) => {
                    let name = layout.spec().variables[of.slice.variable as usize].name.clone();
                    return Err(BadRequest::NotFinite { name, what: of.slice.to_string() });
                }
            }
        }
        slices.sort_by_key(|(partition, of)| (*partition, of.slice, of.offset));
        let (layout, batch, learning_rate) = (Arc::clone(layout), push.batch, push.learning_rate);
        Ok(Self { layout, batch, learning_rate, rows, slices, left_out_of, left_out })
    }

    /// How many rows and slices are left out because their gradients are not finite.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// How many rows it has gradients for.
    pub fn row_count(&self) -> usize {
        self.rows.iter().map(|rows| rows.of.keys.len()).sum()
    }

    /// The partitions that it has gradients for, in order.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        let mut has = [false; PARTITIONS];
        let of_slices = self.slices.iter().map(|(partition, _)| partition);
        of_slices.chain(&self.left_out_of).for_each(|partition| has[partition.index()] = true);
        for rows in &self.rows {
            rows.of.buckets.partitions().for_each(|partition| has[partition.index()] = true);
        }
        PartitionId::all().filter(move |partition| has[partition.index()])
    }

    /// The gradients of slices that live in a partition, by slice and offset.
    pub(crate) fn slices(&self, partition: PartitionId) -> impl Iterator<Item = SliceGradient<'a>> + Clone {
        let from = self.slices.partition_point(|(of, _)| *of < partition);
        let until = self.slices.partition_point(|(of, _)| *of <= partition);
        self.slices[from..until].iter().map(|(_, slice)| *slice)
    }
}

impl Wanted<'_> {
    /// Refuses a question that has no answer, and says how many values the answer has.
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

fn check_rows<'a>(layout: &Layout, of: &RowGradients<'a>, non_finite: NonFinite) -> Result<Rows<'a>, BadRequest> {
    let dim = dim_of(layout, of.table)?;
    check_buckets(layout, of.table, of.keys, of.buckets)?;
    if of.keys.len() * dim != of.gradients.len() {
        let (table, keys, values) = (name_of(layout, of.table), of.keys.len(), of.gradients.len());
        return Err(BadRequest::Width { table, dim, keys, values });
    }
    let left_out = match all_finite(of.gradients) {
        true => Vec::new(),
        false => {
            let rows = (0..).zip(of.gradients.chunks(dim));
            rows.filter(|(_, row)| !all_finite(row)).map(|(position, _)| position).collect()
        }
    };
    match (non_finite, left_out.first()) {
        (NonFinite::Refuse, Some(position)) => {
            let what = format!("row of key {}", of.keys[*position as usize]);
            Err(BadRequest::NotFinite { name: name_of(layout, of.table), what })
        }
        (NonFinite::LeaveOut, _) | (NonFinite::Refuse, None) => Ok(Rows { of: *of, dim, left_out }),
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

/// Whether none is NaN or infinite. Eight at a time, so that it becomes vector instructions.
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
