//! One table's rows in one partition.
//!
//! An index of row numbers stands over pages of rows; a row is found by comparing the key that is in it, so the index
//! costs five bytes per place. Rows are only ever added, and keep their number: a snapshot is the number of rows that
//! there were, and the pages that were written since (see [`crate::snapshot`]).
//!
//! It is *not* for deciding what a push may do: its owner has checked widths and lengths before.

mod pages;
mod record;
mod seen;
#[cfg(test)]
mod tests;

use hashbrown::HashTable;

pub(crate) use pages::Page;
use pages::Pages;
pub(crate) use record::RecordShape;
pub(crate) use seen::Seen;

use crate::initial::Initial;
use crate::placement::{NameHash, Place};
use crate::snapshot::Snapshots;

/// The number of a row in its table and partition, in the order in which rows were made.
pub(crate) type RowNumber = u32;

/// No row has this number: there is room for one fewer.
const NONE: RowNumber = RowNumber::MAX;

/// Rows, found by their key.
#[derive(Debug)]
pub(crate) struct Table {
    name: NameHash,
    index: HashTable<RowNumber>,
    pages: Pages,
}

/// One row, to be changed.
pub(crate) struct RowMut<'a> {
    /// How many steps it has taken, where the optimizer asks.
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

    /// How many rows there are.
    pub(crate) fn rows(&self) -> RowNumber {
        self.pages.rows()
    }

    /// How many bytes of memory it takes, with room for rows to come.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.index.allocation_size() + self.pages.bytes()
    }

    /// The row of a key, if it was ever made.
    #[inline]
    pub(crate) fn find(&self, place: Place, key: u64) -> Option<RowNumber> {
        self.index.find(place.inside(), |row| self.pages.key(*row) == key).copied()
    }

    /// Whether so many more rows can be numbered. To be asked before rows are made.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        (RowNumber::MAX - self.rows()) as usize >= more
    }

    /// The rows of several keys, made if need be with their initial values.
    ///
    /// Almost all time goes into waiting for memory, so it is asked in two rounds: first the index for the first row
    /// that may be the right one, then the rows for their keys. In each round many keys wait at once; one by one, each
    /// would wait twice. A row that turns out to be another's is looked up properly.
    pub(crate) fn find_or_make_all(
        &mut self,
        keys: impl Iterator<Item = (Place, u64)> + Clone,
        initial: &Initial,
        initial_slot: f32,
        rows: &mut Vec<RowNumber>,
    ) {
        let index = &self.index;
        rows.clear();
        rows.extend(keys.clone().map(|(place, _)| index.find(place.inside(), |_| true).copied().unwrap_or(NONE)));
        for (row, (place, key)) in rows.iter_mut().zip(keys) {
            if *row == NONE || self.pages.key(*row) != key {
                *row = self.find_or_make(place, key, initial, initial_slot);
            }
        }
    }

    /// The row of a key, made if need be with its initial values.
    #[inline]
    pub(crate) fn find_or_make(&mut self, place: Place, key: u64, initial: &Initial, initial_slot: f32) -> RowNumber {
        match self.find(place, key) {
            Some(row) => row,
            None => self.make(place, key, initial, initial_slot),
        }
    }

    fn make(&mut self, place: Place, key: u64, initial: &Initial, initial_slot: f32) -> RowNumber {
        let row = self.add(place, key);
        let dim = self.shape().dim;
        let (_, values) = self.pages.record_mut(row);
        let (weights, slots) = values.split_at_mut(dim);
        initial.row(place, weights);
        slots.fill(initial_slot);
        row
    }

    /// Adds a row that was kept elsewhere; `false` if its key is here already.
    pub(crate) fn adopt(&mut self, record: &[u32]) -> bool {
        let key = self.shape().key(record);
        let place = self.name.place(key);
        let is_new = self.find(place, key).is_none();
        if is_new {
            let row = self.add(place, key);
            self.pages.words_mut(row).copy_from_slice(record);
        }
        is_new
    }

    /// The weights of a row.
    #[inline]
    pub(crate) fn weights(&self, row: RowNumber) -> &[f32] {
        self.shape().weights(self.pages.words(row))
    }

    /// A row to be changed; snapshots keep what it was.
    #[inline]
    pub(crate) fn row_mut(&mut self, row: RowNumber, number: u32, snapshots: &mut Snapshots) -> RowMut<'_> {
        let page = self.pages.page_of(row);
        if self.pages.kept(page) < snapshots.latest() {
            let first_row = self.pages.first_row(page);
            snapshots.keep_page(number, page, first_row, self.pages.page_mut(page));
        }
        let (steps, values) = self.pages.record_mut(row);
        RowMut { steps, values }
    }

    /// The pages, in order of their rows.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    fn add(&mut self, place: Place, key: u64) -> RowNumber {
        let row = self.pages.push(key);
        let (name, pages) = (self.name, &self.pages);
        self.index.insert_unique(place.inside(), row, |row| name.place(pages.key(*row)).inside());
        row
    }
}
