//! Export of a partition piece by piece while it is trained, to another server or to a file.
//!
//! The pieces show the partition at the start of the export, read from a snapshot. A caller that wants a live replica
//! forwards later updates itself, in order.

use std::sync::Arc;

use super::contribution::Contribution;
use super::{Budget, Partition, SnapshotId};
use crate::batch::BatchId;
use crate::layout::{SliceId, TableId};
use crate::piece::{Piece, PieceBody, PieceHead, SliceHead, Totals};
use crate::placement::PartitionId;
use crate::snapshot::SnapshotLost;

/// The bytes of rows after which a piece ends.
const PIECE_BYTES: usize = 64 << 10;

/// The position of an export.
#[derive(Debug)]
pub struct PartitionExport {
    snapshot: SnapshotId,
    head: PieceHead,
    waiting: Vec<(BatchId, Arc<Contribution>)>,
    totals: Totals,
    next: NextPiece,
}

/// The next piece.
#[derive(Debug, Clone, Copy)]
enum NextPiece {
    Head,
    Slice { index: usize },
    Page { table: u32, page: u32 },
    Waiting { batch: usize, part: usize },
    End,
    Nothing,
}

impl PartitionExport {
    pub fn partition(&self) -> PartitionId {
        self.head.partition
    }

    pub fn snapshot(&self) -> SnapshotId {
        self.snapshot
    }

    /// The exported version. A live replica also needs the updates that made later versions.
    pub fn version(&self) -> u64 {
        self.head.version
    }
}

impl Partition {
    /// Starts an export of the current state. Pages that training changes meanwhile count against the budget.
    pub fn start_export(&mut self, snapshot: SnapshotId, budget: Arc<Budget>) -> PartitionExport {
        self.open_snapshot(snapshot, budget);
        let head_of = |(slice, of): &(SliceId, crate::dense::Slice)| SliceHead {
            slice: *slice,
            steps: of.steps,
            version: of.version,
        };
        let head = PieceHead {
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
        PartitionExport { snapshot, head, waiting, totals, next: NextPiece::Head }
    }

    /// The next piece; `None` after the last one.
    pub fn next_piece(&self, export: &mut PartitionExport) -> Result<Option<Piece>, SnapshotLost> {
        // Loops when a position is past the last piece of its kind.
        loop {
            let (piece, next) = match export.next {
                NextPiece::Head => (Some(PieceBody::Head(export.head.clone())), NextPiece::Slice { index: 0 }),
                NextPiece::Slice { index } => match self.slice_piece(export, index)? {
                    None => (None, NextPiece::Page { table: 0, page: 0 }),
                    piece => (piece, NextPiece::Slice { index: index + 1 }),
                },
                NextPiece::Page { table, .. } if table as usize == self.tables.len() => {
                    (None, NextPiece::Waiting { batch: 0, part: 0 })
                }
                NextPiece::Page { table, page } => match self.rows_piece(export, table, page)? {
                    None => (None, NextPiece::Page { table: table + 1, page: 0 }),
                    Some((piece, page)) => (Some(piece), NextPiece::Page { table, page }),
                },
                NextPiece::Waiting { batch, .. } if batch == export.waiting.len() => (None, NextPiece::End),
                NextPiece::Waiting { batch, part } => match waiting_piece(&export.waiting[batch], part) {
                    None => (None, NextPiece::Waiting { batch: batch + 1, part: 0 }),
                    piece => (piece, NextPiece::Waiting { batch, part: part + 1 }),
                },
                NextPiece::End => (Some(PieceBody::End(export.totals)), NextPiece::Nothing),
                NextPiece::Nothing => return Ok(None),
            };
            export.next = next;
            if piece.is_some() {
                return Ok(piece.map(Piece));
            }
        }
    }

    /// Ends an export, complete or not, and frees the preserved pages.
    pub fn end_export(&mut self, export: &PartitionExport) {
        self.close_snapshot(export.snapshot);
    }

    fn slice_piece(&self, export: &PartitionExport, index: usize) -> Result<Option<PieceBody>, SnapshotLost> {
        // Slices of variables that were declared later are not exported.
        let Some(head) = export.head.slices.get(index) else { return Ok(None) };
        let kept = self.snapshots.slice(export.snapshot, index, &self.slices[index].1)?;
        let SliceHead { slice, steps, version } = *head;
        Ok(Some(PieceBody::Slice { slice, steps, version, values: kept.values().to_vec() }))
    }

    /// Rows of enough pages for one piece, and the page after them.
    fn rows_piece(
        &self,
        export: &PartitionExport,
        number: u32,
        first: u32,
    ) -> Result<Option<(PieceBody, u32)>, SnapshotLost> {
        let table = &self.tables[number as usize];
        let rows = self.snapshots.rows(export.snapshot, number)?;
        let end = table.pages().pages_of(rows);
        let of_row = table.shape().words();
        let left = rows.saturating_sub(table.pages().first_row(first)) as usize * of_row;
        let room = left.min(PIECE_BYTES / size_of::<u32>() + table.pages().rows_on(first, rows) * of_row);
        let (mut count, mut words, mut page) = (0, Vec::with_capacity(room), first);
        while page < end && (page == first || size_of_val(words.as_slice()) < PIECE_BYTES) {
            let on_it = table.pages().rows_on(page, rows);
            words.extend_from_slice(&self.snapshots.page(export.snapshot, number, table, page)?[..on_it * of_row]);
            count += on_it as u32;
            page += 1;
        }
        Ok((page > first).then_some((PieceBody::Rows { table: TableId(number), count, words }, page)))
    }
}

fn waiting_piece((batch, kept): &(BatchId, Arc<Contribution>), part: usize) -> Option<PieceBody> {
    let batch = *batch;
    if let Some(rows) = kept.rows.get(part) {
        let (keys, gradients) = (rows.keys.clone(), rows.gradients.clone());
        return Some(PieceBody::WaitingRows { batch, table: rows.table, keys, gradients });
    }
    let of = kept.slices.get(part - kept.rows.len())?;
    Some(PieceBody::WaitingSlice { batch, slice: of.slice, offset: of.offset, gradient: of.gradient.clone() })
}
