//! Copy-on-write snapshots of a partition while training goes on.
//!
//! Opening a snapshot copies nothing. The first write to a page (or dense slice) after that preserves the old contents
//! for every snapshot that needs them. Readers take unchanged pages from the live table. Preserved bytes count against
//! the budget of the snapshot, which all partitions of a server share. A snapshot over its budget is lost: reads return
//! [`SnapshotLost::Overrun`]. Without open snapshots a write pays one comparison.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use thiserror::Error;

use crate::dense::Slice;
use crate::table::{Page, RowNumber, Table};

/// The id of a snapshot, chosen by the code that opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub u64);

/// Why a snapshot cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SnapshotLost {
    #[error("training changed more of the model than the {budget} bytes that the snapshot may preserve per server")]
    Overrun { budget: usize },
    /// The snapshot was never opened here, was closed, or its partition has moved.
    #[error("this partition has no such snapshot; the partition may have moved to another server, open a new snapshot")]
    Unknown,
}

/// The bytes that a snapshot may preserve, shared by all partitions of a server.
#[derive(Debug)]
pub struct Budget {
    bytes: usize,
    used: AtomicUsize,
    overrun: AtomicBool,
}

impl Budget {
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, used: AtomicUsize::new(0), overrun: AtomicBool::new(false) })
    }

    /// Bytes preserved so far.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }

    /// Reserves bytes. Returns `false` if the budget is overrun, now or earlier.
    fn reserve(&self, bytes: usize) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used > self.bytes {
            self.overrun.store(true, Ordering::Relaxed);
        }
        !self.is_overrun()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    open: Vec<OpenSnapshot>,
    /// Snapshots opened so far, including closed ones.
    opened: u64,
    /// The number of the youngest open snapshot; 0 if none is open.
    latest: u64,
}

#[derive(Debug)]
struct OpenSnapshot {
    id: SnapshotId,
    /// Counted from 1 in the order of opening. Pages store the number of the latest snapshot they were preserved for.
    number: u64,
    budget: Arc<Budget>,
    /// The row count of each table at the snapshot.
    rows: Vec<RowNumber>,
    version: u64,
    pages: BTreeMap<(u32, u32), Arc<[u32]>>,
    slices: BTreeMap<usize, Arc<Slice>>,
}

impl Snapshots {
    /// The number of the youngest open snapshot. Pages preserved for it need not be preserved again.
    #[inline]
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    pub(crate) fn open(&mut self, id: SnapshotId, budget: Arc<Budget>, rows: Vec<RowNumber>, version: u64) {
        self.close(id);
        self.opened += 1;
        self.latest = self.opened;
        let (pages, slices) = (BTreeMap::new(), BTreeMap::new());
        self.open.push(OpenSnapshot { id, number: self.opened, budget, rows, version, pages, slices });
    }

    pub(crate) fn close(&mut self, id: SnapshotId) {
        self.open.retain(|open| open.id != id);
        self.latest = self.open.last().map_or(0, |open| open.number);
    }

    /// Preserves a page before a write, for every open snapshot that contains any of its rows.
    #[cold]
    pub(crate) fn preserve_page(&mut self, table: u32, number: u32, first_row: RowNumber, page: &mut Page) {
        let mut copy = None;
        let bytes = size_of_val(page.words.as_slice());
        let contains_page =
            |open: &&mut OpenSnapshot| open.rows.get(table as usize).is_some_and(|rows| first_row < *rows);
        for open in self.opened_after(page.preserved_for).filter(contains_page) {
            open.preserve(bytes, |open| {
                let copy = copy.get_or_insert_with(|| Arc::from(page.words.as_slice()));
                open.pages.insert((table, number), Arc::clone(copy));
            });
        }
        page.preserved_for = self.latest;
    }

    /// Preserves a slice before a write.
    #[cold]
    pub(crate) fn preserve_slice(&mut self, index: usize, slice: &mut Slice) {
        let mut copy = None;
        for open in self.opened_after(slice.preserved_for) {
            open.preserve(slice.bytes(), |open| {
                let copy = copy.get_or_insert_with(|| Arc::new(slice.clone()));
                open.slices.insert(index, Arc::clone(copy));
            });
        }
        slice.preserved_for = self.latest;
    }

    /// The version of the partition at the snapshot.
    pub(crate) fn version(&self, id: SnapshotId) -> Result<u64, SnapshotLost> {
        self.find(id).map(|open| open.version)
    }

    /// The row count of a table at the snapshot; 0 if the table was declared later.
    pub(crate) fn rows(&self, id: SnapshotId, table: u32) -> Result<RowNumber, SnapshotLost> {
        self.find(id).map(|open| open.rows.get(table as usize).copied().unwrap_or(0))
    }

    /// The weights of a row at the snapshot, if the row existed.
    pub(crate) fn weights<'a>(
        &'a self,
        id: SnapshotId,
        number: u32,
        table: &'a Table,
        row: RowNumber,
    ) -> Result<Option<&'a [f32]>, SnapshotLost> {
        if row >= self.rows(id, number)? {
            return Ok(None);
        }
        let (page, word) = table.pages().page_and_word(row);
        let words = self.page(id, number, table, page)?;
        Ok(Some(table.shape().weights(&words[word..word + table.shape().words()])))
    }

    /// The contents of a page at the snapshot. It may also contain rows that were created later.
    pub(crate) fn page<'a>(
        &'a self,
        id: SnapshotId,
        number: u32,
        table: &'a Table,
        page: u32,
    ) -> Result<&'a [u32], SnapshotLost> {
        match self.find(id)?.pages.get(&(number, page)) {
            Some(preserved) => Ok(preserved),
            None => Ok(table.pages().page_words(page)),
        }
    }

    /// The contents of a slice at the snapshot.
    pub(crate) fn slice<'a>(
        &'a self,
        id: SnapshotId,
        index: usize,
        slice: &'a Slice,
    ) -> Result<&'a Slice, SnapshotLost> {
        Ok(self.find(id)?.slices.get(&index).map_or(slice, |preserved| preserved))
    }

    fn find(&self, id: SnapshotId) -> Result<&OpenSnapshot, SnapshotLost> {
        let open = self.open.iter().find(|open| open.id == id).ok_or(SnapshotLost::Unknown)?;
        match open.budget.is_overrun() {
            true => Err(SnapshotLost::Overrun { budget: open.budget.bytes }),
            false => Ok(open),
        }
    }

    /// The snapshots opened after snapshot number `preserved_for`.
    fn opened_after(&mut self, preserved_for: u64) -> impl Iterator<Item = &mut OpenSnapshot> {
        self.open.iter_mut().filter(move |open| open.number > preserved_for)
    }
}

impl OpenSnapshot {
    fn preserve(&mut self, bytes: usize, store: impl FnOnce(&mut Self)) {
        if self.budget.reserve(bytes) {
            store(self);
        } else {
            self.pages.clear();
            self.slices.clear();
        }
    }
}
