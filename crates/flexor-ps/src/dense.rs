//! One slice of a dense variable, with its slots.

use bytemuck::cast_slice;

/// A slice and what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slice {
    /// Weights, then each slot.
    values: Vec<f32>,
    /// How many elements.
    len: usize,
    /// How many steps it has taken.
    pub(crate) steps: u32,
    /// The partition's version when it was last written.
    pub(crate) version: u64,
    /// The latest snapshot that has what it needs of this slice.
    pub(crate) kept: u64,
}

impl Slice {
    /// A slice with these weights that has taken no step.
    pub(crate) fn new(weights: Vec<f32>, slots: usize, initial_slot: f32) -> Self {
        let len = weights.len();
        let mut values = weights;
        values.resize(len * (1 + slots), initial_slot);
        Self { values, len, steps: 0, version: 0, kept: 0 }
    }

    /// A slice that was kept elsewhere; `None` unless there are values for weights and all slots.
    pub(crate) fn of_values(values: Vec<f32>, len: usize, slots: usize, steps: u32, version: u64) -> Option<Self> {
        (values.len() == len * (1 + slots)).then_some(Self { values, len, steps, version, kept: 0 })
    }

    /// How many elements it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What models read.
    pub(crate) fn weights(&self) -> &[f32] {
        &self.values[..self.len]
    }

    /// Weights, then each slot.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// How much memory its values take.
    pub(crate) fn bytes(&self) -> usize {
        cast_slice::<f32, u8>(&self.values).len()
    }
}
