//! The rows of one table in one partition.
//!
//! A hash index of row numbers points into pages of rows. A lookup compares the key stored in the row, so the index
//! costs five bytes per entry. Rows are only appended and keep their number. A snapshot is therefore a row count and
//! the pages written since (see [`crate::snapshot`]).
//!
//! It is *not* for validating pushes: the caller has checked widths and lengths.

mod pages;
mod record;
mod row_marks;
#[cfg(test)]
mod tests;

use hashbrown::HashTable;

pub(crate) use pages::Page;
use pages::Pages;
pub(crate) use record::RecordShape;
pub(crate) use row_marks::RowMarks;

use crate::initial_values::InitialValues;
use crate::placement::{KeyHash, NameHash};
use crate::snapshot::Snapshots;

/// The number of a row in its table and partition, in the order of creation.
pub(crate) type RowNumber = u32;

/// Never the number of a row: [`Table::has_room`] stops one short of it.
const NONE: RowNumber = RowNumber::MAX;

#[derive(Debug)]
pub(crate) struct Table {
    name: NameHash,
    index: HashTable<RowNumber>,
    pages: Pages,
}

/// Mutable access to one row.
pub(crate) struct RowMut<'a> {
    /// The step count, if the optimizer needs one.
    pub(crate) steps: Option<&'a mut u32>,
    /// Weights, then slots.
    pub(crate) values: &'a mut [f32],
}

impl Table {
    pub(crate) fn new(name: NameHash, shape: RecordShape) -> Self {
        Self { name, index: HashTable::new(), pages: Pages::new(shape) }
    }

    pub(crate) fn shape(&self) -> RecordShape {
        self.pages.shape()
    }

    pub(crate) fn rows(&self) -> RowNumber {
        self.pages.rows()
    }

    /// Allocated memory, spare capacity included.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.index.allocation_size() + self.pages.bytes()
    }

    /// The row of a key, if it exists.
    #[inline]
    pub(crate) fn find(&self, hash: KeyHash, key: u64) -> Option<RowNumber> {
        self.index.find(hash.in_partition(), |row| self.pages.key(*row) == key).copied()
    }

    /// Whether `more` rows can still be numbered. Callers check this before they create rows.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        (RowNumber::MAX - self.rows()) as usize >= more
    }

    /// Finds the rows of several keys. Missing rows are created with their initial values.
    ///
    /// Almost all time goes into cache misses, so lookups run in two rounds. Round one reads the first candidate row of
    /// each key from the index. Round two compares the keys stored in the rows. Within a round the misses of many keys
    /// overlap; key by key, each would wait twice. A candidate with another key is looked up individually.
    pub(crate) fn find_or_insert_all(
        &mut self,
        keys: impl Iterator<Item = (KeyHash, u64)> + Clone,
        initial: &InitialValues,
        initial_slot: f32,
        rows: &mut Vec<RowNumber>,
    ) {
        let index = &self.index;
        rows.clear();
        rows.extend(keys.clone().map(|(hash, _)| index.find(hash.in_partition(), |_| true).copied().unwrap_or(NONE)));
        for (row, (hash, key)) in rows.iter_mut().zip(keys) {
            if *row == NONE || self.pages.key(*row) != key {
                *row = self.find_or_insert(hash, key, initial, initial_slot);
            }
        }
    }

    /// Finds the row of a key. A missing row is created with its initial values.
    #[inline]
    pub(crate) fn find_or_insert(
        &mut self,
        hash: KeyHash,
        key: u64,
        initial: &InitialValues,
        initial_slot: f32,
    ) -> RowNumber {
        match self.find(hash, key) {
            Some(row) => row,
            None => self.insert(hash, key, initial, initial_slot),
        }
    }

    fn insert(&mut self, hash: KeyHash, key: u64, initial: &InitialValues, initial_slot: f32) -> RowNumber {
        let row = self.add(hash, key);
        let dim = self.shape().dim;
        let (_, values) = self.pages.record_mut(row);
        let (weights, slots) = values.split_at_mut(dim);
        initial.row(hash, weights);
        slots.fill(initial_slot);
        row
    }

    /// Adds a row from a file or another server. Returns `false` if its key exists already.
    pub(crate) fn adopt(&mut self, record: &[u32]) -> bool {
        let key = self.shape().key(record);
        let hash = self.name.hash_key(key);
        let is_new = self.find(hash, key).is_none();
        if is_new {
            let row = self.add(hash, key);
            self.pages.words_mut(row).copy_from_slice(record);
        }
        is_new
    }

    #[inline]
    pub(crate) fn weights(&self, row: RowNumber) -> &[f32] {
        self.shape().weights(self.pages.words(row))
    }

    /// Mutable access to a row. Preserves its page for open snapshots first.
    #[inline]
    pub(crate) fn row_mut(&mut self, row: RowNumber, number: u32, snapshots: &mut Snapshots) -> RowMut<'_> {
        let page = self.pages.page_of(row);
        if self.pages.preserved_for(page) < snapshots.latest() {
            let first_row = self.pages.first_row(page);
            snapshots.preserve_page(number, page, first_row, self.pages.page_mut(page));
        }
        let (steps, values) = self.pages.record_mut(row);
        RowMut { steps, values }
    }

    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    fn add(&mut self, hash: KeyHash, key: u64) -> RowNumber {
        let row = self.pages.push(key);
        let (name, pages) = (self.name, &self.pages);
        self.index.insert_unique(hash.in_partition(), row, |row| name.hash_key(pages.key(*row)).in_partition());
        row
    }
}
