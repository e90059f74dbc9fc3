//! The gradients of one push, validated and split into the slices of the model.
//!
//! Dense gradients have the shape of their variable. Rows of gradients belong to a table or to a dense variable: Keras
//! sends the gradients of a small embedding as rows, and only these rows take a step.

use std::ops::Range;

use flexor_wire::elasticdl as wire;

use super::Refusal;
use super::tensor::Tensor;
use crate::buckets::Buckets;
use crate::layout::{Layout, SliceId, TableId};
use crate::placement::SLICE_ELEMENTS;
use crate::push::{BadRequest, NonFinite, Push, RowGradients, SliceGradient};
use crate::spec::VariableSpec;

/// The gradients of one push, not yet checked for NaN.
#[derive(Debug, Default)]
pub(super) struct DecodedGradients {
    tables: Vec<TableGradients>,
    /// The tensors of dense variables, as received.
    tensors: Vec<Vec<f32>>,
    spans: Vec<GradientSpan>,
}

#[derive(Debug)]
struct TableGradients {
    table: TableId,
    keys: Vec<u64>,
    buckets: Buckets,
    gradients: Vec<f32>,
}

/// A range of a tensor that is the gradient of a part of a slice.
#[derive(Debug)]
struct GradientSpan {
    slice: SliceId,
    offset: u32,
    tensor: usize,
    values: Range<usize>,
}

impl DecodedGradients {
    pub(super) fn of(layout: &Layout, model: &wire::Model) -> Result<Self, Refusal> {
        let mut gradients = Self::default();
        for (name, tensor) in &model.dense_parameters {
            gradients.add_dense(layout, name, tensor)?;
        }
        for (name, rows) in &model.embedding_tables {
            match (layout.table_named(name), layout.variable_named(name)) {
                (Some(table), _) => gradients.add_rows(layout, name, table, rows)?,
                (None, Some(variable)) => gradients.add_rows_of_variable(layout, name, variable, rows)?,
                (None, None) => return Err(Refusal::Unknown(name.clone())),
            }
        }
        Ok(gradients)
    }

    /// Calls `work` with the gradients as a push without a batch: ElasticDL's protocol has none.
    pub(super) fn with<T>(
        &self,
        learning_rate: f32,
        work: impl FnOnce(&Push<'_>) -> Result<T, BadRequest>,
    ) -> Result<T, BadRequest> {
        let rows = self.tables.iter().map(|of| RowGradients {
            table: of.table,
            keys: &of.keys,
            buckets: &of.buckets,
            gradients: &of.gradients,
        });
        let slices = self.spans.iter().map(|of| SliceGradient {
            slice: of.slice,
            offset: of.offset,
            gradient: &self.tensors[of.tensor][of.values.clone()],
        });
        let (rows, slices): (Vec<_>, Vec<_>) = (rows.collect(), slices.collect());
        work(&Push { batch: None, learning_rate, rows: &rows, slices: &slices, non_finite: NonFinite::Refuse })
    }

    fn add_dense(&mut self, layout: &Layout, name: &str, proto: &wire::TensorProto) -> Result<(), Refusal> {
        let unknown = || Refusal::Unknown(name.to_owned());
        let number = layout.variable_named(name).ok_or_else(unknown)?;
        let VariableSpec { shape, .. } = &layout.spec().variables[number as usize];
        let tensor = Tensor::of(name, Some(proto))?;
        if tensor.shape != *shape {
            return Err(Refusal::Shape { name: name.to_owned(), wanted: shape.clone(), found: tensor.shape });
        }
        let values = tensor.floats();
        self.add_spans(number, 0, 0..values.len());
        self.tensors.push(values);
        Ok(())
    }

    fn add_rows(
        &mut self,
        layout: &Layout,
        name: &str,
        table: TableId,
        rows: &wire::IndexedSlicesProto,
    ) -> Result<(), Refusal> {
        let (Some(hash), Some(dim)) = (layout.name_hash(table), layout.dim(table)) else {
            return Err(Refusal::Unknown(name.to_owned()));
        };
        if let Some(gradients) = rows_of(name, rows, dim as u64)? {
            let keys = keys_of(&rows.ids);
            let buckets = Buckets::of(hash, &keys);
            self.tables.push(TableGradients { table, keys, buckets, gradients });
        }
        Ok(())
    }

    fn add_rows_of_variable(
        &mut self,
        layout: &Layout,
        name: &str,
        number: u32,
        rows: &wire::IndexedSlicesProto,
    ) -> Result<(), Refusal> {
        let of = &layout.spec().variables[number as usize];
        let count = of.shape.first().copied().unwrap_or(0);
        // A variable has at least one element, so no side is 0.
        let width = of.elements().checked_div(count).unwrap_or(0);
        let Some(values) = rows_of(name, rows, width)? else { return Ok(()) };
        for (index, id) in rows.ids.iter().enumerate() {
            let no_row = || Refusal::Row { name: name.to_owned(), rows: count, id: *id };
            let row = u64::try_from(*id).ok().filter(|row| *row < count).ok_or_else(no_row)?;
            let width = width as usize;
            self.add_spans(number, row * width as u64, index * width..(index + 1) * width);
        }
        self.tensors.push(values);
        Ok(())
    }

    /// Splits a range of the next tensor at slice boundaries. `element` is its first element in the variable.
    fn add_spans(&mut self, variable: u32, mut element: u64, mut values: Range<usize>) {
        while !values.is_empty() {
            let (index, offset) = (element / SLICE_ELEMENTS, element % SLICE_ELEMENTS);
            let len = values.len().min((SLICE_ELEMENTS - offset) as usize);
            // A variable has at most 2^31 elements in slices of 2^16.
            let slice = SliceId { variable, index: index as u32 };
            let span = values.start..values.start + len;
            self.spans.push(GradientSpan { slice, offset: offset as u32, tensor: self.tensors.len(), values: span });
            element += len as u64;
            values.start += len;
        }
    }
}

/// Reinterprets ids as keys: the same 64 bits.
pub(super) fn keys_of(ids: &[i64]) -> Vec<u64> {
    ids.iter().map(|id| id.cast_unsigned()).collect()
}

/// The values of the rows, one row of `width` per id; `None` without ids.
pub(super) fn rows_of(name: &str, rows: &wire::IndexedSlicesProto, width: u64) -> Result<Option<Vec<f32>>, Refusal> {
    let ids = rows.ids.len();
    if ids == 0 && rows.concat_tensors.as_ref().is_none_or(|tensor| tensor.tensor_content.is_empty()) {
        return Ok(None);
    }
    let tensor = Tensor::of(name, rows.concat_tensors.as_ref())?;
    // A row of a variable may have more than one side.
    let fits = tensor
        .shape
        .split_first()
        .is_some_and(|(count, row)| *count == ids as u64 && row.iter().product::<u64>() == width && width > 0);
    match fits {
        true => Ok(Some(tensor.floats())),
        false => Err(Refusal::Rows { name: name.to_owned(), ids, width, found: tensor.shape }),
    }
}
