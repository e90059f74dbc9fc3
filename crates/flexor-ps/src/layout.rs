//! A validated model with everything derived from it that servers and clients need on the hot path.
//!
//! A layout is built once from a [`ModelSpec`] and shared by all partitions. It has widths, name hashes, slices and
//! initial values. It holds no trained values.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::initial_values::InitialValues;
use crate::optimizer::Kernel;
use crate::placement::{NameHash, PartitionId, SLICE_ELEMENTS};
use crate::spec::{Fingerprint, ModelSpec, SpecError, TableSpec, VariableSpec};

/// A table, by its index in the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableId(pub u32);

/// A range of a dense variable that is stored in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SliceId {
    /// The variable, by its index in the specification.
    pub variable: u32,
    /// Counted from 0 within the variable.
    pub index: u32,
}

impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice {} of variable {}", self.index, self.variable)
    }
}

/// A validated model with derived data.
#[derive(Debug)]
pub struct Layout {
    spec: ModelSpec,
    fingerprint: Fingerprint,
    tables: Vec<TableLayout>,
    variables: Vec<VariableLayout>,
    kernel: Kernel,
}

/// The shape and initial values of a table's rows.
#[derive(Debug, Clone)]
pub(crate) struct TableLayout {
    pub(crate) name: NameHash,
    pub(crate) dim: usize,
    pub(crate) initial: InitialValues,
}

#[derive(Debug)]
struct VariableLayout {
    name: NameHash,
    elements: u64,
    initial: InitialValues,
}

impl Layout {
    /// Validates the model and derives its layout.
    pub fn new(spec: ModelSpec) -> Result<Arc<Self>, SpecError> {
        spec.check()?;
        let seed = spec.seed;
        let table = |table: &TableSpec| {
            let name = NameHash::of(&table.name);
            let initial = InitialValues::of_table(name, table.dim, table.init, seed);
            TableLayout { name, dim: table.dim as usize, initial }
        };
        let variable = |variable: &VariableSpec| {
            let name = NameHash::of(&variable.name);
            let initial = InitialValues::of_variable(name, &variable.shape, variable.init, seed);
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

    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub fn table_named(&self, name: &str) -> Option<TableId> {
        let index = self.spec.tables.iter().position(|table| table.name == name)?;
        Some(TableId(index as u32))
    }

    pub fn variable_named(&self, name: &str) -> Option<u32> {
        let index = self.spec.variables.iter().position(|variable| variable.name == name)?;
        Some(index as u32)
    }

    /// Values per row of the table.
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

    /// The elements of its variable that a slice covers.
    pub fn elements(&self, slice: SliceId) -> Option<Range<u64>> {
        let variable = self.variables.get(slice.variable as usize)?;
        let first = u64::from(slice.index) * SLICE_ELEMENTS;
        let end = variable.elements.min(first + SLICE_ELEMENTS);
        (first < end).then_some(first..end)
    }

    pub fn partition_of(&self, slice: SliceId) -> Option<PartitionId> {
        self.elements(slice)?;
        let variable = self.variables.get(slice.variable as usize)?;
        Some(variable.name.hash_key(u64::from(slice.index)).partition())
    }

    /// The hash of a table's name; it determines the partition of each row.
    pub fn name_hash(&self, table: TableId) -> Option<NameHash> {
        self.table(table).map(|table| table.name)
    }

    /// Fills `weights` with the initial values of a slice.
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
    fn slices_cover_a_variable_without_gaps() {
        for elements in [1, SLICE_ELEMENTS - 1, SLICE_ELEMENTS, SLICE_ELEMENTS + 1, 5 * SLICE_ELEMENTS + 7] {
            let layout = layout(elements);
            let pieces: Vec<_> = layout.slices().map(|slice| layout.elements(slice).unwrap()).collect();
            assert_eq!(pieces.first().unwrap().start, 0);
            assert_eq!(pieces.last().unwrap().end, elements);
            assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn an_unknown_slice_has_no_partition() {
        let layout = layout(10);
        assert_eq!(layout.partition_of(SliceId { variable: 0, index: 1 }), None);
        assert_eq!(layout.elements(SliceId { variable: 1, index: 0 }), None);
        assert_eq!(layout.slices_of(9).count(), 0);
    }
}
