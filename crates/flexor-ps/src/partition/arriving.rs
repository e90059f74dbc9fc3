//! Putting a partition together from its pieces.
//!
//! Pieces may come from another server or from files; each is checked against the model before it is taken, and the
//! partition is only given out when it is whole.

use std::sync::Arc;

use thiserror::Error;

use super::Partition;
use super::contribution::{Contribution, RowPart, SlicePart};
use crate::batch::BatchId;
use crate::dense::Slice;
use crate::layout::{Layout, SliceId, TableId};
use crate::piece::{Head, Part, Piece, Totals};
use crate::placement::PartitionId;
use crate::spec::Fingerprint;

/// A partition of which not all pieces have come yet.
#[derive(Debug)]
pub struct Arriving {
    partition: Partition,
    head: Option<Head>,
    arrived: Totals,
    end: Option<Totals>,
}

/// Pieces that do not make this partition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArrivalError {
    /// The pieces are of another model.
    #[error("the partition is of model {found}, this server holds model {wanted}; start it with the same model")]
    OtherModel {
        /// The model here.
        wanted: Fingerprint,
        /// The model of the pieces.
        found: Fingerprint,
    },
    /// The pieces are of another partition.
    #[error("a piece of partition {found} came instead of one of partition {wanted}")]
    OtherPartition {
        /// The partition awaited.
        wanted: PartitionId,
        /// The partition of the piece.
        found: PartitionId,
    },
    /// The head is not the first, or comes twice, or something comes behind the end.
    #[error("the pieces of partition {0} are not in order")]
    Disorder(PartitionId),
    /// Rows that are no rows of the table.
    #[error("partition {partition}: rows that do not fit table {}", .table.0)]
    Rows {
        /// The partition.
        partition: PartitionId,
        /// The table.
        table: TableId,
    },
    /// A row that lives elsewhere, or came twice.
    #[error("partition {partition}: the row of key {key} in table {} lives elsewhere or came twice", .table.0)]
    Row {
        /// The partition.
        partition: PartitionId,
        /// The table.
        table: TableId,
        /// The key.
        key: u64,
    },
    /// A slice that is none of this partition, has another size, or came twice.
    #[error("partition {partition}: {slice} does not fit, or came twice")]
    Slice {
        /// The partition.
        partition: PartitionId,
        /// The slice.
        slice: SliceId,
    },
    /// Not everything has come.
    #[error("partition {partition} is not whole: {missing}")]
    Missing {
        /// The partition.
        partition: PartitionId,
        /// What is missing.
        missing: String,
    },
}

impl Arriving {
    /// Awaits the pieces of a partition.
    pub fn new(layout: &Arc<Layout>, partition: PartitionId) -> Self {
        let partition = Partition::empty(layout, partition);
        Self { partition, head: None, arrived: Totals::default(), end: None }
    }

    /// Takes the next piece. After an error the whole of it is to be thrown away.
    pub fn take(&mut self, piece: Piece) -> Result<(), ArrivalError> {
        let is_head = matches!(piece.0, Part::Head(_));
        if is_head == self.head.is_some() || self.end.is_some() {
            return Err(ArrivalError::Disorder(self.partition.id));
        }
        match piece.0 {
            Part::Head(head) => self.take_head(head),
            Part::Slice { slice, steps, version, values } => self.take_slice(slice, steps, version, values),
            Part::Rows { table, count, words } => self.take_rows(table, count, &words),
            Part::WaitingRows { batch, table, keys, gradients } => {
                self.take_waiting_rows(batch, RowPart { table, keys, gradients })
            }
            Part::WaitingSlice { batch, slice, offset, gradient } => {
                self.take_waiting_slice(batch, SlicePart { slice, offset, gradient })
            }
            Part::End(totals) => {
                self.end = Some(totals);
                Ok(())
            }
        }
    }

    /// How often a slice has stepped and when it was last changed, as the head says; for who takes its values from
    /// elsewhere.
    pub(crate) fn slices(&self) -> &[crate::piece::SliceHead] {
        self.head.as_ref().map_or(&[], |head| &head.slices)
    }

    /// Gives up what waits for a synchronous step: its batches are computed again. The master may have closed them
    /// before the step was taken here.
    pub(crate) fn forget_waiting(&mut self) {
        for (batch, _) in std::mem::take(&mut self.partition.buffered) {
            self.partition.history.reopen(batch);
        }
        self.arrived.waiting = self.end.map_or(0, |end| end.waiting);
    }

    /// The partition, if it is whole.
    pub fn finish(mut self) -> Result<Partition, ArrivalError> {
        let partition = self.partition.id;
        let missing = |missing: String| Err(ArrivalError::Missing { partition, missing });
        let Some(end) = self.end else { return missing("its end has not come".to_owned()) };
        if end != self.arrived {
            let (arrived, rows) = (self.arrived.rows, end.rows);
            return missing(format!("{arrived} of {rows} rows have come"));
        }
        let layout = Arc::clone(&self.partition.layout);
        let here = |slice: &SliceId| layout.partition_of(*slice) == Some(partition);
        match layout.slices().filter(here).find(|slice| self.partition.place_of(*slice).is_none()) {
            Some(slice) => missing(format!("{slice} has not come")),
            None => {
                self.partition.extend(&layout);
                Ok(self.partition)
            }
        }
    }

    fn take_head(&mut self, head: Head) -> Result<(), ArrivalError> {
        let wanted = self.partition.layout.fingerprint();
        if head.fingerprint != wanted {
            return Err(ArrivalError::OtherModel { wanted, found: head.fingerprint });
        }
        if head.partition != self.partition.id {
            return Err(ArrivalError::OtherPartition { wanted: self.partition.id, found: head.partition });
        }
        self.partition.version = head.version;
        self.partition.history = head.history.clone();
        let waiting = head.waiting.iter().map(|batch| (*batch, Arc::new(Contribution::default())));
        self.partition.buffered = waiting.collect();
        self.head = Some(head);
        Ok(())
    }

    fn take_slice(&mut self, slice: SliceId, steps: u32, version: u64, values: Vec<f32>) -> Result<(), ArrivalError> {
        let partition = &mut self.partition;
        let wrong = ArrivalError::Slice { partition: partition.id, slice };
        let len = partition.layout.elements(slice).map_or(0, |elements| elements.end - elements.start);
        let slots = partition.layout.kernel().slots();
        let made = Slice::of_values(values, len as usize, slots, steps, version);
        let place = partition.slices.binary_search_by_key(&slice, |(slice, _)| *slice);
        match (made, place, partition.layout.partition_of(slice) == Some(partition.id)) {
            (Some(made), Err(place), true) => {
                partition.slices.insert(place, (slice, made));
                Ok(())
            }
            (None, _, _) | (_, Ok(_), _) | (_, _, false) => Err(wrong),
        }
    }

    fn take_rows(&mut self, table: TableId, count: u32, words: &[u32]) -> Result<(), ArrivalError> {
        let partition = self.partition.id;
        let wrong = ArrivalError::Rows { partition, table };
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
            if name.place(key).partition() != partition || !of.adopt(record) {
                return Err(ArrivalError::Row { partition, table, key });
            }
        }
        self.arrived.rows += u64::from(count);
        Ok(())
    }

    fn take_waiting_rows(&mut self, batch: BatchId, part: RowPart) -> Result<(), ArrivalError> {
        let wrong = ArrivalError::Rows { partition: self.partition.id, table: part.table };
        let layout = &self.partition.layout;
        let (Some(dim), Some(name)) = (layout.dim(part.table), layout.name_hash(part.table)) else { return Err(wrong) };
        let here = part.keys.iter().all(|key| name.place(*key).partition() == self.partition.id);
        if !here || part.keys.is_empty() || part.keys.len() * dim != part.gradients.len() {
            return Err(wrong);
        }
        self.contribution(batch, |kept| kept.rows.push(part))
    }

    fn take_waiting_slice(&mut self, batch: BatchId, part: SlicePart) -> Result<(), ArrivalError> {
        let partition = &self.partition;
        let len = partition.layout.elements(part.slice).map_or(0, |elements| elements.end - elements.start);
        let here = partition.layout.partition_of(part.slice) == Some(partition.id);
        if !here || u64::from(part.offset) + part.gradient.len() as u64 > len {
            return Err(ArrivalError::Slice { partition: partition.id, slice: part.slice });
        }
        self.contribution(batch, |kept| kept.slices.push(part))
    }

    fn contribution(&mut self, batch: BatchId, add: impl FnOnce(&mut Contribution)) -> Result<(), ArrivalError> {
        let kept = self.partition.buffered.get_mut(&batch).ok_or(ArrivalError::Disorder(self.partition.id))?;
        add(Arc::make_mut(kept));
        self.arrived.waiting += 1;
        Ok(())
    }
}
