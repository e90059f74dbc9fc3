//! Assembly of a partition from its pieces.
//!
//! Pieces come from another server or from files. Each piece is validated against the model. The partition is only
//! returned when it is complete.

use std::sync::Arc;

use thiserror::Error;

use super::Partition;
use super::contribution::{Contribution, RowPart, SlicePart};
use crate::batch::BatchId;
use crate::dense::Slice;
use crate::layout::{Layout, SliceId, TableId};
use crate::piece::{Piece, PieceBody, PieceHead, Totals};
use crate::placement::PartitionId;
use crate::spec::Fingerprint;

/// A partition in assembly.
#[derive(Debug)]
pub struct PartitionImport {
    partition: Partition,
    head: Option<PieceHead>,
    received: Totals,
    end: Option<Totals>,
}

/// The pieces do not make up this partition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ImportError {
    #[error(
        "the partition is of model {found}, but this server holds model {wanted}; start the server with the same model"
    )]
    OtherModel { wanted: Fingerprint, found: Fingerprint },
    #[error("received a piece of partition {found} instead of partition {wanted}")]
    OtherPartition { wanted: PartitionId, found: PartitionId },
    /// The head does not come first, comes twice, or a piece follows the end.
    #[error("the pieces of partition {0} are out of order")]
    Disorder(PartitionId),
    #[error("partition {partition}: received rows that do not fit table {}", .table.0)]
    Rows { partition: PartitionId, table: TableId },
    /// The row belongs to another partition, or came twice.
    #[error("partition {partition}: the row of key {key} in table {} belongs to another partition or was received twice", .table.0)]
    Row { partition: PartitionId, table: TableId, key: u64 },
    #[error("partition {partition}: {slice} does not fit or was received twice")]
    Slice { partition: PartitionId, slice: SliceId },
    #[error("partition {partition} is incomplete: {missing}")]
    Missing { partition: PartitionId, missing: String },
}

impl PartitionImport {
    pub fn new(layout: &Arc<Layout>, partition: PartitionId) -> Self {
        let partition = Partition::empty(layout, partition);
        Self { partition, head: None, received: Totals::default(), end: None }
    }

    /// Adds the next piece. After an error the import must be dropped.
    pub fn add(&mut self, piece: Piece) -> Result<(), ImportError> {
        let is_head = matches!(piece.0, PieceBody::Head(_));
        if is_head == self.head.is_some() || self.end.is_some() {
            return Err(ImportError::Disorder(self.partition.id));
        }
        match piece.0 {
            PieceBody::Head(head) => self.add_head(head),
            PieceBody::Slice { slice, steps, version, values } => self.add_slice(slice, steps, version, values),
            PieceBody::Rows { table, count, words } => self.add_rows(table, count, &words),
            PieceBody::WaitingRows { batch, table, keys, gradients } => {
                self.add_waiting_rows(batch, RowPart { table, keys, gradients })
            }
            PieceBody::WaitingSlice { batch, slice, offset, gradient } => {
                self.add_waiting_slice(batch, SlicePart { slice, offset, gradient })
            }
            PieceBody::End(totals) => {
                self.end = Some(totals);
                Ok(())
            }
        }
    }

    /// Step counts and versions of the slices, from the head. A restore reads the values of slices from another file.
    pub(crate) fn slices(&self) -> &[crate::piece::SliceHead] {
        self.head.as_ref().map_or(&[], |head| &head.slices)
    }

    /// Drops contributions buffered for a synchronous step: their batches are computed again. Reopens these batches in
    /// the history, because the master may have closed them before the step was committed here.
    pub(crate) fn drop_waiting(&mut self) {
        for (batch, _) in std::mem::take(&mut self.partition.buffered) {
            self.partition.history.reopen(batch);
        }
        self.received.waiting = self.end.map_or(0, |end| end.waiting);
    }

    /// Returns the partition if it is complete.
    pub fn finish(mut self) -> Result<Partition, ImportError> {
        let partition = self.partition.id;
        let missing = |missing: String| Err(ImportError::Missing { partition, missing });
        let Some(end) = self.end else { return missing("the end piece is missing".to_owned()) };
        if end != self.received {
            let (received, rows) = (self.received.rows, end.rows);
            return missing(format!("received {received} of {rows} rows"));
        }
        let layout = Arc::clone(&self.partition.layout);
        let is_own = |slice: &SliceId| layout.partition_of(*slice) == Some(partition);
        match layout.slices().filter(is_own).find(|slice| self.partition.slice_index(*slice).is_none()) {
            Some(slice) => missing(format!("{slice} is missing")),
            None => {
                self.partition.extend(&layout);
                Ok(self.partition)
            }
        }
    }

    fn add_head(&mut self, head: PieceHead) -> Result<(), ImportError> {
        let wanted = self.partition.layout.fingerprint();
        if head.fingerprint != wanted {
            return Err(ImportError::OtherModel { wanted, found: head.fingerprint });
        }
        if head.partition != self.partition.id {
            return Err(ImportError::OtherPartition { wanted: self.partition.id, found: head.partition });
        }
        self.partition.version = head.version;
        self.partition.history = head.history.clone();
        let waiting = head.waiting.iter().map(|batch| (*batch, Arc::new(Contribution::default())));
        self.partition.buffered = waiting.collect();
        self.head = Some(head);
        Ok(())
    }

    fn add_slice(&mut self, slice: SliceId, steps: u32, version: u64, values: Vec<f32>) -> Result<(), ImportError> {
        let partition = &mut self.partition;
        let wrong = ImportError::Slice { partition: partition.id, slice };
        let len = partition.layout.elements(slice).map_or(0, |elements| elements.end - elements.start);
        let slots = partition.layout.kernel().slots();
        let made = Slice::of_values(values, len as usize, slots, steps, version);
        let position = partition.slices.binary_search_by_key(&slice, |(slice, _)| *slice);
        match (made, position, partition.layout.partition_of(slice) == Some(partition.id)) {
            (Some(made), Err(position), true) => {
                partition.slices.insert(position, (slice, made));
                Ok(())
            }
            (None, _, _) | (_, Ok(_), _) | (_, _, false) => Err(wrong),
        }
    }

    fn add_rows(&mut self, table: TableId, count: u32, words: &[u32]) -> Result<(), ImportError> {
        let partition = self.partition.id;
        let wrong = ImportError::Rows { partition, table };
        let (Some(name), Some(of)) =
            (self.partition.layout.name_hash(table), self.partition.tables.get_mut(table.0 as usize))
        else {
            return Err(wrong);
        };
        let shape = of.shape();
        if words.len() != (count as usize).saturating_mul(shape.words()) || !of.has_room(count as usize) {
            return Err(wrong);
        }
        for record in words.chunks_exact(shape.words()) {
            let key = shape.key(record);
            if name.hash_key(key).partition() != partition || !of.adopt(record) {
                return Err(ImportError::Row { partition, table, key });
            }
        }
        self.received.rows += u64::from(count);
        Ok(())
    }

    fn add_waiting_rows(&mut self, batch: BatchId, part: RowPart) -> Result<(), ImportError> {
        let wrong = ImportError::Rows { partition: self.partition.id, table: part.table };
        let layout = &self.partition.layout;
        let (Some(dim), Some(name)) = (layout.dim(part.table), layout.name_hash(part.table)) else { return Err(wrong) };
        let all_own = part.keys.iter().all(|key| name.hash_key(*key).partition() == self.partition.id);
        if !all_own || part.keys.is_empty() || part.keys.len() * dim != part.gradients.len() {
            return Err(wrong);
        }
        self.contribution(batch, |contribution| contribution.rows.push(part))
    }

    fn add_waiting_slice(&mut self, batch: BatchId, part: SlicePart) -> Result<(), ImportError> {
        let partition = &self.partition;
        let len = partition.layout.elements(part.slice).map_or(0, |elements| elements.end - elements.start);
        let is_own = partition.layout.partition_of(part.slice) == Some(partition.id);
        if !is_own || u64::from(part.offset) + part.gradient.len() as u64 > len {
            return Err(ImportError::Slice { partition: partition.id, slice: part.slice });
        }
        self.contribution(batch, |contribution| contribution.slices.push(part))
    }

    fn contribution(&mut self, batch: BatchId, add: impl FnOnce(&mut Contribution)) -> Result<(), ImportError> {
        let contribution = self.partition.buffered.get_mut(&batch).ok_or(ImportError::Disorder(self.partition.id))?;
        add(Arc::make_mut(contribution));
        self.received.waiting += 1;
        Ok(())
    }
}
