//! Reads of rows and slices: for training, for evaluation, and from a snapshot.

use std::sync::Arc;

use super::{Partition, PartitionError};
use crate::layout::{Layout, SliceId};
use crate::push::RowKeys;
use crate::snapshot::{SnapshotId, SnapshotLost};
use crate::table::{RowNumber, Table};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SliceView<'a> {
    /// The partition's version at the last change. Versions of different generations of a partition are not comparable:
    /// a client forgets its known versions when a checkpoint was restored.
    pub version: u64,
    pub weights: &'a [f32],
}

impl Partition {
    /// Reads rows for training. Missing rows are created with their initial values.
    ///
    /// The row of the key at position `i` goes to `out[i·dim..]`. Rows of other partitions are not written.
    pub fn pull(
        &mut self,
        layout: &Arc<Layout>,
        requested: RowKeys<'_>,
        out: &mut [f32],
    ) -> Result<(), PartitionError> {
        self.extend(layout);
        let (number, positions) = (requested.table.0 as usize, requested.buckets.positions(self.id));
        let full = PartitionError::Full { partition: self.id, table: requested.table };
        let (Some(of), Some(table)) = (layout.table(requested.table), self.tables.get_mut(number)) else {
            return Err(full);
        };
        if !table.has_room(positions.len()) {
            return Err(full);
        }
        let initial_slot = layout.kernel().initial_slot();
        let rows = &mut self.scratch.rows;
        let keys = positions
            .iter()
            .map(|position| (requested.buckets.key_hash(*position), requested.keys[*position as usize]));
        table.find_or_insert_all(keys, &of.initial, initial_slot, rows);
        for (row, position) in rows.iter().zip(positions) {
            out[*position as usize * of.dim..][..of.dim].copy_from_slice(table.weights(*row));
        }
        Ok(())
    }

    /// Reads rows without creating any: a missing row has its initial values.
    pub fn peek(&self, layout: &Layout, requested: RowKeys<'_>, out: &mut [f32]) {
        self.read(layout, requested, out, |table, row| Some(table.weights(row)));
    }

    /// Reads rows from a snapshot.
    pub fn peek_snapshot(
        &self,
        id: SnapshotId,
        layout: &Layout,
        requested: RowKeys<'_>,
        out: &mut [f32],
    ) -> Result<(), SnapshotLost> {
        self.snapshots.version(id)?;
        let number = requested.table.0;
        self.read(layout, requested, out, |table, row| self.snapshots.weights(id, number, table, row).ok().flatten());
        // This partition is locked, but other partitions share the budget and may have overrun it.
        self.snapshots.version(id).map(|_| ())
    }

    /// A dense slice, if it belongs to this partition.
    pub fn slice(&self, slice: SliceId) -> Option<SliceView<'_>> {
        let (_, found) = &self.slices[self.slice_index(slice)?];
        Some(SliceView { version: found.version, weights: found.weights() })
    }

    /// A dense slice from a snapshot, if it belongs to this partition.
    pub fn slice_of_snapshot(&self, id: SnapshotId, slice: SliceId) -> Result<Option<SliceView<'_>>, SnapshotLost> {
        self.snapshots.version(id)?;
        let Some(index) = self.slice_index(slice) else { return Ok(None) };
        let found = self.snapshots.slice(id, index, &self.slices[index].1)?;
        Ok(Some(SliceView { version: found.version, weights: found.weights() }))
    }

    /// The version of the partition at a snapshot.
    pub fn version_of_snapshot(&self, id: SnapshotId) -> Result<u64, SnapshotLost> {
        self.snapshots.version(id)
    }

    fn read<'a>(
        &'a self,
        layout: &Layout,
        requested: RowKeys<'_>,
        out: &mut [f32],
        weights: impl Fn(&'a Table, RowNumber) -> Option<&'a [f32]>,
    ) {
        let Some(of) = layout.table(requested.table) else { return };
        let table = self.tables.get(requested.table.0 as usize);
        for position in requested.buckets.positions(self.id) {
            let (hash, key) = (requested.buckets.key_hash(*position), requested.keys[*position as usize]);
            let found = table.and_then(|table| weights(table, table.find(hash, key)?));
            let out = &mut out[*position as usize * of.dim..][..of.dim];
            match found {
                Some(found) => out.copy_from_slice(found),
                None => of.initial.row(hash, out),
            }
        }
    }
}
