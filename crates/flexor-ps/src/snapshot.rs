//! A partition as it was at one moment, while training goes on.
//!
//! Opening a snapshot copies nothing. The first write to a page (or dense slice) after that puts what it was aside for
//! those snapshots that need it; everything else is read where it is. What is put aside is counted against the
//! snapshot's budget, which its parts in other partitions share; over it the snapshot is lost, and reading it says so.
//! Without snapshots a write pays one comparison.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use thiserror::Error;

use crate::dense::Slice;
use crate::table::{Page, RowNumber, Table};

/// The number of a snapshot; its owner chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub u64);

/// Why a snapshot cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SnapshotLost {
    /// Training changed more than there was room to keep.
    #[error("training changed more of the model than the {budget} bytes that a server may keep aside")]
    Overrun {
        /// The budget it had.
        budget: usize,
    },
    /// Nobody opened it here, or it was closed, or the partition has moved since.
    #[error("there is no such snapshot of this partition; it may have moved to another server, open a new one")]
    Unknown,
}

/// How many bytes a snapshot may put aside, shared by its parts in all partitions of a server.
#[derive(Debug)]
pub struct Budget {
    bytes: usize,
    used: AtomicUsize,
    overrun: AtomicBool,
}

impl Budget {
    /// So many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, used: AtomicUsize::new(0), overrun: AtomicBool::new(false) })
    }

    /// How many bytes were put aside so far.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether it was too small.
    pub fn is_overrun(&self) -> bool {
        self.overrun.load(Ordering::Relaxed)
    }

    /// Takes so many bytes, or says that they are not there.
    fn take(&self, bytes: usize) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if used > self.bytes {
            self.overrun.store(true, Ordering::Relaxed);
        }
        !self.is_overrun()
    }
}

/// The open snapshots of one partition.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    open: Vec<Open>,
    /// How many were ever opened.
    opened: u64,
    /// The number of the youngest open one; 0 if none is.
    latest: u64,
}

/// One of them.
#[derive(Debug)]
struct Open {
    id: SnapshotId,
    /// Which one this was, from 1. Pages know the number of the latest snapshot that they were kept for.
    number: u64,
    budget: Arc<Budget>,
    /// How many rows each table had.
    rows: Vec<RowNumber>,
    version: u64,
    pages: BTreeMap<(u32, u32), Arc<[u32]>>,
    slices: BTreeMap<usize, Arc<Slice>>,
}

impl Snapshots {
    /// The number of the youngest open snapshot: pages that were kept for it need not be kept again.
    #[inline]
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    pub(crate) fn open(&mut self, id: SnapshotId, budget: Arc<Budget>, rows: Vec<RowNumber>, version: u64) {
        self.close(id);
        self.opened += 1;
        self.latest = self.opened;
        let (pages, slices) = (BTreeMap::new(), BTreeMap::new());
        self.open.push(Open { id, number: self.opened, budget, rows, version, pages, slices });
    }

    pub(crate) fn close(&mut self, id: SnapshotId) {
        self.open.retain(|open| open.id != id);
        self.latest = self.open.last().map_or(0, |open| open.number);
    }

    /// Puts a page aside that is about to be written, for snapshots that had any of its rows.
    #[cold]
    pub(crate) fn keep_page(&mut self, table: u32, number: u32, first_row: RowNumber, page: &mut Page) {
        let mut copy = None;
        let bytes = size_of_val(page.words.as_slice());
        let had = |open: &&mut Open| open.rows.get(table as usize).is_some_and(|rows| first_row < *rows);
        for open in self.in_need_of(page.kept).filter(had) {
            open.put_aside(bytes, |open| {
                let copy = copy.get_or_insert_with(|| Arc::from(page.words.as_slice()));
                open.pages.insert((table, number), Arc::clone(copy));
            });
        }
        page.kept = self.latest;
    }

    /// Puts a slice aside that is about to be written.
    #[cold]
    pub(crate) fn keep_slice(&mut self, place: usize, slice: &mut Slice) {
        let mut copy = None;
        for open in self.in_need_of(slice.kept) {
            open.put_aside(slice.bytes(), |open| {
                let copy = copy.get_or_insert_with(|| Arc::new(slice.clone()));
                open.slices.insert(place, Arc::clone(copy));
            });
        }
        slice.kept = self.latest;
    }

    /// The version that the partition had.
    pub(crate) fn version(&self, id: SnapshotId) -> Result<u64, SnapshotLost> {
        self.find(id).map(|open| open.version)
    }

    /// How many rows a table had; none if it was declared later.
    pub(crate) fn rows(&self, id: SnapshotId, table: u32) -> Result<RowNumber, SnapshotLost> {
        self.find(id).map(|open| open.rows.get(table as usize).copied().unwrap_or(0))
    }

    /// The weights that a row had, if there was such a row.
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

    /// A page as it was. Rows behind those that there were may be on it too.
    pub(crate) fn page<'a>(
        &'a self,
        id: SnapshotId,
        number: u32,
        table: &'a Table,
        page: u32,
    ) -> Result<&'a [u32], SnapshotLost> {
        match self.find(id)?.pages.get(&(number, page)) {
            Some(kept) => Ok(kept),
            None => Ok(table.pages().page_words(page)),
        }
    }

    /// A slice as it was.
    pub(crate) fn slice<'a>(
        &'a self,
        id: SnapshotId,
        place: usize,
        slice: &'a Slice,
    ) -> Result<&'a Slice, SnapshotLost> {
        Ok(self.find(id)?.slices.get(&place).map_or(slice, |kept| kept))
    }

    fn find(&self, id: SnapshotId) -> Result<&Open, SnapshotLost> {
        let open = self.open.iter().find(|open| open.id == id).ok_or(SnapshotLost::Unknown)?;
        match open.budget.is_overrun() {
            true => Err(SnapshotLost::Overrun { budget: open.budget.bytes }),
            false => Ok(open),
        }
    }

    /// Those that were opened after something was last kept.
    fn in_need_of(&mut self, kept: u64) -> impl Iterator<Item = &mut Open> {
        self.open.iter_mut().filter(move |open| open.number > kept)
    }
}

impl Open {
    fn put_aside(&mut self, bytes: usize, keep: impl FnOnce(&mut Self)) {
        if self.budget.take(bytes) {
            keep(self);
        } else {
            self.pages.clear();
            self.slices.clear();
        }
    }
}
