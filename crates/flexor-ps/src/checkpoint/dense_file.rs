//! The file of a server's dense variables, in safetensors format.
//!
//! The only slice of a variable is a tensor with the name and shape of the variable. A slice of several is a flat
//! tensor `NAME@slice3`. Slots are further tensors, `NAME@m` or `NAME@slice3@m`. All are little-endian f32.

use std::borrow::Cow;
use std::collections::HashMap;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors, View};

use crate::layout::{Layout, SliceId};
use crate::little_endian::{Reader, put_floats};

/// A slice with weights and slots, concatenated.
pub(super) struct SliceValues {
    pub(super) slice: SliceId,
    pub(super) values: Vec<f32>,
}

/// A tensor to be written.
pub(super) struct OwnedTensor {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

impl View for OwnedTensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Encodes a file with these slices.
pub(super) fn to_bytes(layout: &Layout, slices: &[SliceValues]) -> Result<Vec<u8>, SafeTensorError> {
    let mut tensors = Vec::new();
    for SliceValues { slice, values } in slices {
        let elements = elements(layout, *slice);
        for (name, part) in names(layout, *slice).into_iter().zip(values.chunks(elements.max(1))) {
            let mut bytes = Vec::with_capacity(part.len() * 4);
            put_floats(&mut bytes, part);
            tensors.push((name, OwnedTensor { dtype: Dtype::F32, shape: shape(layout, *slice), bytes }));
        }
    }
    let metadata = [("fingerprint".to_owned(), layout.fingerprint().to_string())];
    safetensors::serialize(tensors, Some(HashMap::from(metadata)))
}

pub(super) struct DenseFile<'a>(SafeTensors<'a>);

impl<'a> DenseFile<'a> {
    pub(super) fn from_bytes(bytes: &'a [u8]) -> Result<Self, SafeTensorError> {
        SafeTensors::deserialize(bytes).map(Self)
    }

    /// Weights and slots of a slice, concatenated; `None` unless all of them exist with the right size.
    pub(super) fn values(&self, layout: &Layout, slice: SliceId) -> Option<Vec<f32>> {
        let elements = elements(layout, slice);
        let mut values = Vec::new();
        for name in names(layout, slice) {
            let tensor: TensorView<'_> = self.0.tensor(&name).ok()?;
            let fits = tensor.dtype() == Dtype::F32 && tensor.data().len() == elements * 4;
            values.extend(Reader(tensor.data()).floats(elements).filter(|_| fits)?);
        }
        Some(values)
    }
}

fn elements(layout: &Layout, slice: SliceId) -> usize {
    layout.elements(slice).map_or(0, |elements| (elements.end - elements.start) as usize)
}

fn is_only_slice(layout: &Layout, slice: SliceId) -> bool {
    layout.slices_of(slice.variable).count() == 1
}

fn shape(layout: &Layout, slice: SliceId) -> Vec<usize> {
    match layout.spec().variables.get(slice.variable as usize) {
        Some(variable) if is_only_slice(layout, slice) => variable.shape.iter().map(|side| *side as usize).collect(),
        Some(_) | None => vec![elements(layout, slice)],
    }
}

/// The names of weights and slots.
fn names(layout: &Layout, slice: SliceId) -> Vec<String> {
    let variable = layout.spec().variables.get(slice.variable as usize).map_or("", |variable| &variable.name);
    let name = match is_only_slice(layout, slice) {
        true => variable.to_owned(),
        false => format!("{variable}@slice{}", slice.index),
    };
    let slots = layout.spec().optimizer.slots().iter().map(|slot| format!("{name}@{slot}"));
    std::iter::once(name.clone()).chain(slots).collect()
}
