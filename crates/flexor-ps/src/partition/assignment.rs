//! Assignment of given values: the initial model of an ElasticDL worker, or a model of another system.
//!
//! Slots and step counts are not changed. Native workers never assign: initial values are computed.

use std::sync::Arc;

use super::{Partition, PartitionError};
use crate::layout::{Layout, SliceId};
use crate::push::RowKeys;

impl Partition {
    /// Sets the weights of a slice. Returns `false` if it belongs to another partition or has another size.
    pub fn assign_slice(
        &mut self,
        layout: &Arc<Layout>,
        slice: SliceId,
        weights: &[f32],
    ) -> Result<bool, PartitionError> {
        self.extend(layout);
        let Some(index) = self.slice_index(slice) else { return Ok(false) };
        let of = &mut self.slices[index].1;
        if of.len() != weights.len() {
            return Ok(false);
        }
        if of.preserved_for < self.snapshots.latest() {
            self.snapshots.preserve_slice(index, of);
        }
        self.version += 1;
        of.version = self.version;
        of.values_mut()[..weights.len()].copy_from_slice(weights);
        Ok(true)
    }

    /// Sets the weights of rows; missing rows are created. `values` has one row per key of `of`, concatenated.
    pub fn assign_rows(&mut self, layout: &Arc<Layout>, of: RowKeys<'_>, values: &[f32]) -> Result<(), PartitionError> {
        self.extend(layout);
        let (number, positions) = (of.table.0, of.buckets.positions(self.id));
        let full = PartitionError::Full { partition: self.id, table: of.table };
        let (Some(shape), Some(table)) = (layout.table(of.table), self.tables.get_mut(number as usize)) else {
            return Err(full);
        };
        if !table.has_room(positions.len()) {
            return Err(full);
        }
        self.version += 1;
        for position in positions {
            let (hash, key) = (of.buckets.key_hash(*position), of.keys[*position as usize]);
            let row = table.find_or_insert(hash, key, &shape.initial, layout.kernel().initial_slot());
            let row = table.row_mut(row, number, &mut self.snapshots);
            row.values[..shape.dim].copy_from_slice(&values[*position as usize * shape.dim..][..shape.dim]);
        }
        Ok(())
    }
}
