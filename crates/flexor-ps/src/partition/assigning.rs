//! Setting values as they are given: a first model that a client brings, or a model of another system.
//!
//! Slots and step counts stay as they are. No native worker does this; initial values are computed.

use std::sync::Arc;

use super::{Partition, Turned};
use crate::layout::{Layout, SliceId};
use crate::push::Wanted;

impl Partition {
    /// Sets the weights of a slice; `false` if it does not live here or has another number of elements.
    pub fn assign_slice(&mut self, layout: &Arc<Layout>, slice: SliceId, weights: &[f32]) -> Result<bool, Turned> {
        self.extend(layout);
        let Some(place) = self.place_of(slice) else { return Ok(false) };
        let of = &mut self.slices[place].1;
        if of.len() != weights.len() {
            return Ok(false);
        }
        if of.kept < self.snapshots.latest() {
            self.snapshots.keep_slice(place, of);
        }
        self.version += 1;
        of.version = self.version;
        of.values_mut()[..weights.len()].copy_from_slice(weights);
        Ok(true)
    }

    /// Sets the weights of rows, which are made if need be. `values` has a row for each key of `of`, one behind the
    /// other.
    pub fn assign_rows(&mut self, layout: &Arc<Layout>, of: Wanted<'_>, values: &[f32]) -> Result<(), Turned> {
        self.extend(layout);
        let (number, positions) = (of.table.0, of.buckets.positions(self.id));
        let full = Turned::Full { partition: self.id, table: of.table };
        let (Some(shape), Some(table)) = (layout.table(of.table), self.tables.get_mut(number as usize)) else {
            return Err(full);
        };
        if !table.has_room(positions.len()) {
            return Err(full);
        }
        self.version += 1;
        for position in positions {
            let (place, key) = (of.buckets.place(*position), of.keys[*position as usize]);
            let row = table.find_or_make(place, key, &shape.initial, layout.kernel().initial_slot());
            let row = table.row_mut(row, number, &mut self.snapshots);
            row.values[..shape.dim].copy_from_slice(&values[*position as usize * shape.dim..][..shape.dim]);
        }
        Ok(())
    }
}
