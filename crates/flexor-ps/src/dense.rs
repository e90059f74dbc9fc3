//! One slice of a dense variable with its optimizer slots.

use bytemuck::cast_slice;

/// Weights, slots and step count of a slice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slice {
    /// Weights, then each slot.
    values: Vec<f32>,
    len: usize,
    /// Optimizer steps applied so far.
    pub(crate) steps: u32,
    /// The partition's version at the last write.
    pub(crate) version: u64,
    /// The latest snapshot for which this slice was preserved; 0 for none.
    pub(crate) preserved_for: u64,
}

impl Slice {
    /// A slice with these weights before its first step.
    pub(crate) fn new(weights: Vec<f32>, slots: usize, initial_slot: f32) -> Self {
        let len = weights.len();
        let mut values = weights;
        values.resize(len * (1 + slots), initial_slot);
        Self { values, len, steps: 0, version: 0, preserved_for: 0 }
    }

    /// A slice from a file or another server. `None` unless `values` has the size of weights and all slots.
    pub(crate) fn of_values(values: Vec<f32>, len: usize, slots: usize, steps: u32, version: u64) -> Option<Self> {
        (values.len() == len * (1 + slots)).then_some(Self { values, len, steps, version, preserved_for: 0 })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

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

    /// Memory of the values.
    pub(crate) fn bytes(&self) -> usize {
        cast_slice::<f32, u8>(&self.values).len()
    }
}
