//! Reading rows and slices: for training, for evaluation, and as they were when a snapshot was opened.

use std::sync::Arc;

use super::{Partition, Turned};
use crate::layout::{Layout, SliceId};
use crate::push::Wanted;
use crate::snapshot::{SnapshotId, SnapshotLost};
use crate::table::{RowNumber, Table};

/// A dense slice, to be read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SliceView<'a> {
    /// The partition's version when it was last changed. Versions of another life of the partition tell nothing: who
    /// learns that a checkpoint was restored forgets what it knows.
    pub version: u64,
    /// Its elements.
    pub weights: &'a [f32],
}

impl Partition {
    /// Reads rows for training. Rows that are not there yet are made, with their initial values.
    ///
    /// The values of the key at position `i` go to `out[i·dim..]`; those of keys that live elsewhere are left alone.
    pub fn pull(&mut self, layout: &Arc<Layout>, wanted: Wanted<'_>, out: &mut [f32]) -> Result<(), Turned> {
        self.extend(layout);
        let (number, positions) = (wanted.table.0 as usize, wanted.buckets.positions(self.id));
        let full = Turned::Full { partition: self.id, table: wanted.table };
        let (Some(of), Some(table)) = (layout.table(wanted.table), self.tables.get_mut(number)) else {
            return Err(full);
        };
        if !table.has_room(positions.len()) {
            return Err(full);
        }
        let initial_slot = layout.kernel().initial_slot();
        let rows = &mut self.scratch.rows;
        let keys = positions.iter().map(|position| (wanted.buckets.place(*position), wanted.keys[*position as usize]));
        table.find_or_make_all(keys, &of.initial, initial_slot, rows);
        for (row, position) in rows.iter().zip(positions) {
            out[*position as usize * of.dim..][..of.dim].copy_from_slice(table.weights(*row));
        }
        Ok(())
    }

    /// Reads rows without making any: one that is not there has its initial values.
    pub fn peek(&self, layout: &Layout, wanted: Wanted<'_>, out: &mut [f32]) {
        self.read(layout, wanted, out, |table, row| Some(table.weights(row)));
    }

    /// Reads rows as they were when a snapshot was opened.
    pub fn peek_snapshot(
        &self,
        id: SnapshotId,
        layout: &Layout,
        wanted: Wanted<'_>,
        out: &mut [f32],
    ) -> Result<(), SnapshotLost> {
        self.snapshots.version(id)?;
        let number = wanted.table.0;
        self.read(layout, wanted, out, |table, row| self.snapshots.weights(id, number, table, row).ok().flatten());
        // Nothing is written meanwhile here, but other partitions share the budget.
        self.snapshots.version(id).map(|_| ())
    }

    /// A dense slice, if it lives here.
    pub fn slice(&self, slice: SliceId) -> Option<SliceView<'_>> {
        let (_, found) = &self.slices[self.place_of(slice)?];
        Some(SliceView { version: found.version, weights: found.weights() })
    }

    /// A dense slice as it was when a snapshot was opened, if it lives here.
    pub fn slice_of_snapshot(&self, id: SnapshotId, slice: SliceId) -> Result<Option<SliceView<'_>>, SnapshotLost> {
        self.snapshots.version(id)?;
        let Some(place) = self.place_of(slice) else { return Ok(None) };
        let found = self.snapshots.slice(id, place, &self.slices[place].1)?;
        Ok(Some(SliceView { version: found.version, weights: found.weights() }))
    }

    /// The version that the partition had when a snapshot was opened.
    pub fn version_of_snapshot(&self, id: SnapshotId) -> Result<u64, SnapshotLost> {
        self.snapshots.version(id)
    }

    fn read<'a>(
        &'a self,
        layout: &Layout,
        wanted: Wanted<'_>,
        out: &mut [f32],
        weights: impl Fn(&'a Table, RowNumber) -> Option<&'a [f32]>,
    ) {
        let Some(of) = layout.table(wanted.table) else { return };
        let table = self.tables.get(wanted.table.0 as usize);
        for position in wanted.buckets.positions(self.id) {
            let (place, key) = (wanted.buckets.place(*position), wanted.keys[*position as usize]);
            let found = table.and_then(|table| weights(table, table.find(place, key)?));
            let out = &mut out[*position as usize * of.dim..][..of.dim];
            match found {
                Some(found) => out.copy_from_slice(found),
                None => of.initial.row(place, out),
            }
        }
    }
}
