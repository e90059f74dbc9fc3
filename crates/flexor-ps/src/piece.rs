//! A partition in bounded pieces: how it travels to another server, and how it is kept in files.
//!
//! A head with what the partition remembers, its dense slices, its rows, what waits for a synchronous step, and an end
//! that says how much there was. Each piece is a [block](crate::block) when it is written.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::batch::BatchId;
use crate::block::{self, Block, BlockError, HEAD_BYTES};
use crate::layout::{SliceId, TableId};
use crate::little_endian::{Reader, put_floats, put_longs, put_u32, put_u64, put_words};
use crate::partition::History;
use crate::placement::PartitionId;
use crate::spec::Fingerprint;

const HEAD: u32 = 1;
const SLICE: u32 = 2;
const ROWS: u32 = 3;
const WAITING_ROWS: u32 = 4;
const WAITING_SLICE: u32 = 5;
const END: u32 = 6;

/// No piece has more bytes before its values.
const FIELDS: usize = 40;

/// A piece of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece(pub(crate) Part);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Head(Head),
    Slice { slice: SliceId, steps: u32, version: u64, values: Vec<f32> },
    Rows { table: TableId, count: u32, words: Vec<u32> },
    WaitingRows { batch: BatchId, table: TableId, keys: Vec<u64>, gradients: Vec<f32> },
    WaitingSlice { batch: BatchId, slice: SliceId, offset: u32, gradient: Vec<f32> },
    End(Totals),
}

/// What comes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) partition: PartitionId,
    /// Of which model.
    pub(crate) fingerprint: Fingerprint,
    pub(crate) version: u64,
    pub(crate) history: History,
    /// What slices have beside their values.
    pub(crate) slices: Vec<SliceHead>,
    /// Batches that wait for a synchronous step, even if they have nothing here.
    pub(crate) waiting: Vec<BatchId>,
}

/// What a slice has beside its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SliceHead {
    pub(crate) slice: SliceId,
    pub(crate) steps: u32,
    pub(crate) version: u64,
}

/// What comes last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Totals {
    pub(crate) rows: u64,
    pub(crate) waiting: u64,
}

/// Bytes that are no piece of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PieceError {
    /// They are no block.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// They are a block of something else, or of a later version.
    #[error("a block of kind {kind} with {bytes} bytes is no piece of a partition")]
    Malformed {
        /// The kind it says.
        kind: u32,
        /// How long it is.
        bytes: usize,
    },
}

impl Piece {
    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        self.put(&mut out);
        out
    }

    /// From the bytes of one piece, and nothing behind it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PieceError> {
        let (block, rest) = block::take(bytes)?;
        match rest.is_empty() {
            true => Self::of_block(block),
            false => Err(PieceError::Malformed { kind: block.kind, bytes: bytes.len() }),
        }
    }

    /// From the contents of a block, after its checksum.
    pub fn from_contents(kind: u32, bytes: &[u8]) -> Result<Self, PieceError> {
        Self::of_block(Block { kind, bytes })
    }

    pub(crate) fn of_block(block: Block<'_>) -> Result<Self, PieceError> {
        let malformed = PieceError::Malformed { kind: block.kind, bytes: block.bytes.len() };
        read(block).map(Self).ok_or(malformed)
    }

    /// About how many bytes it takes.
    fn size(&self) -> usize {
        let values = match &self.0 {
            Part::Slice { values, .. } => size_of_val(values.as_slice()),
            Part::Rows { words, .. } => size_of_val(words.as_slice()),
            Part::WaitingRows { keys, gradients, .. } => {
                size_of_val(keys.as_slice()) + size_of_val(gradients.as_slice())
            }
            Part::WaitingSlice { gradient, .. } => size_of_val(gradient.as_slice()),
            Part::Head(_) | Part::End(_) => 0,
        };
        HEAD_BYTES + FIELDS + values
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        block::put_with(out, |out| write(&self.0, out));
    }
}

fn write(part: &Part, out: &mut Vec<u8>) -> u32 {
    match part {
        Part::Head(head) => {
            write_json(out, head);
            HEAD
        }
        Part::Slice { slice, steps, version, values } => {
            put_slice(out, *slice);
            put_u32(out, *steps);
            put_u64(out, *version);
            put_u32(out, values.len() as u32);
            put_floats(out, values);
            SLICE
        }
        Part::Rows { table, count, words } => {
            put_u32(out, table.0);
            put_u32(out, *count);
            put_u32(out, words.len() as u32);
            put_words(out, words);
            ROWS
        }
        Part::WaitingRows { batch, table, keys, gradients } => {
            put_batch(out, *batch);
            put_u32(out, table.0);
            put_u32(out, keys.len() as u32);
            put_u32(out, gradients.len() as u32);
            put_longs(out, keys);
            put_floats(out, gradients);
            WAITING_ROWS
        }
        Part::WaitingSlice { batch, slice, offset, gradient } => {
            put_batch(out, *batch);
            put_slice(out, *slice);
            put_u32(out, *offset);
            put_u32(out, gradient.len() as u32);
            put_floats(out, gradient);
            WAITING_SLICE
        }
        Part::End(totals) => {
            write_json(out, totals);
            END
        }
    }
}

fn read(block: Block<'_>) -> Option<Part> {
    let mut fields = Reader(block.bytes);
    let part = match block.kind {
        HEAD => return serde_json::from_slice(block.bytes).ok().map(Part::Head),
        END => return serde_json::from_slice(block.bytes).ok().map(Part::End),
        SLICE => {
            let (slice, steps, version) = (take_slice(&mut fields)?, fields.u32()?, fields.u64()?);
            let count = fields.u32()?;
            Part::Slice { slice, steps, version, values: fields.floats(count as usize)? }
        }
        ROWS => {
            let (table, count, words) = (TableId(fields.u32()?), fields.u32()?, fields.u32()?);
            Part::Rows { table, count, words: fields.words(words as usize)? }
        }
        WAITING_ROWS => {
            let (batch, table) = (take_batch(&mut fields)?, TableId(fields.u32()?));
            let (keys, gradients) = (fields.u32()?, fields.u32()?);
            let (keys, gradients) = (fields.longs(keys as usize)?, fields.floats(gradients as usize)?);
            Part::WaitingRows { batch, table, keys, gradients }
        }
        WAITING_SLICE => {
            let (batch, slice, offset) = (take_batch(&mut fields)?, take_slice(&mut fields)?, fields.u32()?);
            let count = fields.u32()?;
            Part::WaitingSlice { batch, slice, offset, gradient: fields.floats(count as usize)? }
        }
        _ => return None,
    };
    fields.is_empty().then_some(part)
}

fn write_json(out: &mut Vec<u8>, value: &impl Serialize) {
    // Writing numbers and lists into memory has no way to fail.
    if let Ok(text) = serde_json::to_vec(value) {
        out.extend(text);
    }
}

fn put_slice(out: &mut Vec<u8>, slice: SliceId) {
    put_u32(out, slice.variable);
    put_u32(out, slice.index);
}

fn take_slice(fields: &mut Reader<'_>) -> Option<SliceId> {
    Some(SliceId { variable: fields.u32()?, index: fields.u32()? })
}

fn put_batch(out: &mut Vec<u8>, batch: BatchId) {
    put_u32(out, batch.dataset);
    put_u32(out, batch.epoch);
    put_u64(out, batch.first);
    put_u32(out, batch.len);
}

fn take_batch(fields: &mut Reader<'_>) -> Option<BatchId> {
    Some(BatchId { dataset: fields.u32()?, epoch: fields.u32()?, first: fields.u64()?, len: fields.u32()? })
}
