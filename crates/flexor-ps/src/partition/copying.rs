//! Copying a partition piece by piece while it is trained: to another server, or to a file.
//!
//! The copy is the partition as it was when copying began. Updates that come after that are for whoever makes the copy
//! to forward, in order.

use std::sync::Arc;

use super::contribution::Contribution;
use super::{Budget, Partition, SnapshotId};
use crate::batch::BatchId;
use crate::layout::{SliceId, TableId};
use crate::piece::{Head, Part, Piece, SliceHead, Totals};
use crate::placement::PartitionId;
use crate::snapshot::SnapshotLost;

/// Rows go together until they have so many bytes.
const PIECE: usize = 64 << 10;

/// How far a copy of a partition is.
#[derive(Debug)]
pub struct PartitionCopy {
    snapshot: SnapshotId,
    head: Head,
    waiting: Vec<(BatchId, Arc<Contribution>)>,
    totals: Totals,
    next: Next,
}

/// What comes next.
#[derive(Debug, Clone, Copy)]
enum Next {
    Head,
    Slice { place: usize },
    Page { table: u32, page: u32 },
    Waiting { batch: usize, part: usize },
    End,
    Nothing,
}

impl PartitionCopy {
    /// Which partition it is.
    pub fn partition(&self) -> PartitionId {
        self.head.partition
    }

    /// The snapshot that it is read from.
    pub fn snapshot(&self) -> SnapshotId {
        self.snapshot
    }

    /// The version that is copied: updates that made later ones are to be forwarded.
    pub fn version(&self) -> u64 {
        self.head.version
    }
}

impl Partition {
    /// Begins a copy of the partition as it is. What training changes meanwhile counts against the budget.
    pub fn begin_copy(&mut self, snapshot: SnapshotId, budget: Arc<Budget>) -> PartitionCopy {
        self.open_snapshot(snapshot, budget);
        let head_of = |(slice, of): &(SliceId, crate::dense::Slice)| SliceHead {
            slice: *slice,
            steps: of.steps,
            version: of.version,
        };
        let head = Head {
            partition: self.id,
            fingerprint: self.layout.fingerprint(),
            version: self.version,
            history: self.history.clone(),
            slices: self.slices.iter().map(head_of).collect(),
            waiting: self.buffered.keys().copied().collect(),
        };
        let waiting: Vec<_> = self.buffered.iter().map(|(batch, kept)| (*batch, Arc::clone(kept))).collect();
        let parts = |kept: &Contribution| (kept.rows.len() + kept.slices.len()) as u64;
        let totals = Totals { rows: self.rows(), waiting: waiting.iter().map(|(_, kept)| parts(kept)).sum() };
        PartitionCopy { snapshot, head, waiting, totals, next: Next::Head }
    }

    /// The next piece; none if that was all.
    pub fn next_piece(&self, copy: &mut PartitionCopy) -> Result<Option<Piece>, SnapshotLost> {
        // Asked again where a place turns out to be behind the last one of its kind.
        loop {
            let (piece, next) = match copy.next {
                Next::Head => (Some(Part::Head(copy.head.clone())), Next::Slice { place: 0 }),
                Next::Slice { place } => match self.slice_piece(copy, place)? {
                    None => (None, Next::Page { table: 0, page: 0 }),
                    piece => (piece, Next::Slice { place: place + 1 }),
                },
                Next::Page { table, .. } if table as usize == self.tables.len() => {
                    (None, Next::Waiting { batch: 0, part: 0 })
                }
                Next::Page { table, page } => match self.rows_piece(copy, table, page)? {
                    None => (None, Next::Page { table: table + 1, page: 0 }),
                    Some((piece, page)) => (Some(piece), Next::Page { table, page }),
                },
                Next::Waiting { batch, .. } if batch == copy.waiting.len() => (None, Next::End),
                Next::Waiting { batch, part } => match waiting_piece(&copy.waiting[batch], part) {
                    None => (None, Next::Waiting { batch: batch + 1, part: 0 }),
                    piece => (piece, Next::Waiting { batch, part: part + 1 }),
                },
                Next::End => (Some(Part::End(copy.totals)), Next::Nothing),
                Next::Nothing => return Ok(None),
            };
            copy.next = next;
            if piece.is_some() {
                return Ok(piece.map(Piece));
            }
        }
    }

    /// Ends a copy, finished or not, and frees what was kept for it.
    pub fn end_copy(&mut self, copy: &PartitionCopy) {
        self.close_snapshot(copy.snapshot);
    }

    fn slice_piece(&self, copy: &PartitionCopy, place: usize) -> Result<Option<Part>, SnapshotLost> {
        // Slices of variables that were declared since are no part of the copy.
        let Some(head) = copy.head.slices.get(place) else { return Ok(None) };
        let kept = self.snapshots.slice(copy.snapshot, place, &self.slices[place].1)?;
        let SliceHead { slice, steps, version } = *head;
        Ok(Some(Part::Slice { slice, steps, version, values: kept.values().to_vec() }))
    }

    /// Rows of as many pages as make a piece, and the page behind them.
    fn rows_piece(&self, copy: &PartitionCopy, number: u32, first: u32) -> Result<Option<(Part, u32)>, SnapshotLost> {
        let table = &self.tables[number as usize];
        let rows = self.snapshots.rows(copy.snapshot, number)?;
        let end = table.pages().pages_of(rows);
        let of_row = table.shape().words();
        let left = rows.saturating_sub(table.pages().first_row(first)) as usize * of_row;
        let room = left.min(PIECE / size_of::<u32>() + table.pages().rows_on(first, rows) * of_row);
        let (mut count, mut words, mut page) = (0, Vec::with_capacity(room), first);
        while page < end && (page == first || size_of_val(words.as_slice()) < PIECE) {
            let on_it = table.pages().rows_on(page, rows);
            words.extend_from_slice(&self.snapshots.page(copy.snapshot, number, table, page)?[..on_it * of_row]);
            count += on_it as u32;
            page += 1;
        }
        Ok((page > first).then_some((Part::Rows { table: TableId(number), count, words }, page)))
    }
}

fn waiting_piece((batch, kept): &(BatchId, Arc<Contribution>), part: usize) -> Option<Part> {
    let batch = *batch;
    if let Some(rows) = kept.rows.get(part) {
        let (keys, gradients) = (rows.keys.clone(), rows.gradients.clone());
        return Some(Part::WaitingRows { batch, table: rows.table, keys, gradients });
    }
    let of = kept.slices.get(part - kept.rows.len())?;
    Some(Part::WaitingSlice { batch, slice: of.slice, offset: of.offset, gradient: of.gradient.clone() })
}
