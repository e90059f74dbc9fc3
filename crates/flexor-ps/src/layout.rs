//! A checked model with everything worked out that servers and clients need at every step.
//!
//! Made once of a [`ModelSpec`] and shared by all partitions. It knows widths, hashes, slices and how values begin; it
//! holds no values.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::initial::Initial;
use crate::optimizer::Kernel;
use crate::placement::{NameHash, PartitionId, SLICE_ELEMENTS};
use crate::spec::{Fingerprint, ModelSpec, SpecError, TableSpec, VariableSpec};

/// A table, by its place in the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableId(pub u32);

/// A piece of a dense variable that stays together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SliceId {
    /// The variable, by its place in the specification.
    pub variable: u32,
    /// Which of its slices, from 0.
    pub index: u32,
}

impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice {} of variable {}", self.index, self.variable)
    }
}

/// A model, ready to be held and asked.
#[derive(Debug)]
pub struct Layout {
    spec: ModelSpec,
    fingerprint: Fingerprint,
    tables: Vec<TableLayout>,
    variables: Vec<VariableLayout>,
    kernel: Kernel,
}

/// What a table's rows look like.
#[derive(Debug, Clone)]
pub(crate) struct TableLayout {
    pub(crate) name: NameHash,
    pub(crate) dim: usize,
    pub(crate) initial: Initial,
}

#[derive(Debug)]
struct VariableLayout {
    name: NameHash,
    elements: u64,
    initial: Initial,
}

impl Layout {
    /// The layout of a model, if it can be.
    pub fn new(spec: ModelSpec) -> Result<Arc<Self>, SpecError> {
        spec.check()?;
        let seed = spec.seed;
        let table = |table: &TableSpec| {
            let name = NameHash::of(&table.name);
            let initial = Initial::of_table(name, table.dim, table.init, seed);
            TableLayout { name, dim: table.dim as usize, initial }
        };
        let variable = |variable: &VariableSpec| {
            let name = NameHash::of(&variable.name);
            let initial = Initial::of_variable(name, &variable.shape, variable.init, seed);
            VariableLayout { name, elements: variable.elements(), initial }
        };
        Ok(Arc::new(Self {
            fingerprint: spec.fingerprint(),
            tables: spec.tables.iter().map(table).collect(),
            variables: spec.variables.iter().map(variable).collect(),
            kernel: Kernel::new(spec.optimizer),
            spec,
        }))
    }

    /// What the model was declared as.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The model's number.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The table of this name.
    pub fn table_named(&self, name: &str) -> Option<TableId> {
        let place = self.spec.tables.iter().position(|table| table.name == name)?;
        Some(TableId(place as u32))
    }

    /// The variable of this name.
    pub fn variable_named(&self, name: &str) -> Option<u32> {
        let place = self.spec.variables.iter().position(|variable| variable.name == name)?;
        Some(place as u32)
    }

    /// How many values a row of the table has.
    pub fn dim(&self, table: TableId) -> Option<usize> {
        self.table(table).map(|table| table.dim)
    }

    /// The slices of a variable, in order.
    pub fn slices_of(&self, variable: u32) -> impl Iterator<Item = SliceId> + use<> {
        let elements = self.variables.get(variable as usize).map_or(0, |variable| variable.elements);
        // At most 2^31 elements in slices of 2^16.
        let count = elements.div_ceil(SLICE_ELEMENTS) as u32;
        (0..count).map(move |index| SliceId { variable, index })
    }

    /// All slices of the model, in order.
    pub fn slices(&self) -> impl Iterator<Item = SliceId> {
        (0..self.variables.len() as u32).flat_map(|variable| self.slices_of(variable))
    }

    /// Which elements of its variable a slice has.
    pub fn elements(&self, slice: SliceId) -> Option<Range<u64>> {
        let variable = self.variables.get(slice.variable as usize)?;
        let first = u64::from(slice.index) * SLICE_ELEMENTS;
        let end = variable.elements.min(first + SLICE_ELEMENTS);
        (first < end).then_some(first..end)
    }

    /// Where a slice lives.
    pub fn partition_of(&self, slice: SliceId) -> Option<PartitionId> {
        self.elements(slice)?;
        let variable = self.variables.get(slice.variable as usize)?;
        Some(variable.name.place(u64::from(slice.index)).partition())
    }

    /// The hash of a table's name, from which the place of each of its rows follows.
    pub fn name_hash(&self, table: TableId) -> Option<NameHash> {
        self.table(table).map(|table| table.name)
    }

    /// Fills in what a slice begins with.
    pub(crate) fn initial_slice(&self, slice: SliceId, weights: &mut [f32]) {
        if let (Some(variable), Some(elements)) = (self.variables.get(slice.variable as usize), self.elements(slice)) {
            variable.initial.elements(elements.start, weights);
        }
    }

    pub(crate) fn table(&self, table: TableId) -> Option<&TableLayout> {
        self.tables.get(table.0 as usize)
    }

    pub(crate) fn tables(&self) -> &[TableLayout] {
        &self.tables
    }

    pub(crate) fn kernel(&self) -> &Kernel {
        &self.kernel
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Initializer, Optimizer};

    fn layout(elements: u64) -> Arc<Layout> {
        let variable = VariableSpec { name: "w".into(), shape: vec![elements], init: Initializer::Zeros };
        let spec = ModelSpec { variables: vec![variable], tables: vec![], optimizer: Optimizer::sgd(0.1), seed: 0 };
        Layout::new(spec).unwrap()
    }

    #[test]
    fn a_variable_is_cut_into_slices_without_gaps() {
        for elements in [1, SLICE_ELEMENTS - 1, SLICE_ELEMENTS, SLICE_ELEMENTS + 1, 5 * SLICE_ELEMENTS + 7] {
            let layout = layout(elements);
            let pieces: Vec<_> = layout.slices().map(|slice| layout.elements(slice).unwrap()).collect();
            assert_eq!(pieces.first().unwrap().start, 0);
            assert_eq!(pieces.last().unwrap().end, elements);
            assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn a_slice_that_is_not_there_is_nowhere() {
        let layout = layout(10);
        assert_eq!(layout.partition_of(SliceId { variable: 0, index: 1 }), None);
        assert_eq!(layout.elements(SliceId { variable: 1, index: 0 }), None);
        assert_eq!(layout.slices_of(9).count(), 0);
    }
}
