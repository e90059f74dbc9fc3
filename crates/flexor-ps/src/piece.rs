//! A partition as a sequence of bounded pieces: its form on the wire and in files.
//!
//! The order is: head (version and batch history), dense slices, rows, gradients buffered for a synchronous step, end
//! (totals). Each piece is encoded as one [block](crate::block). `partition::export` makes pieces and
//! `partition::import` checks and assembles them; this module only encodes and decodes.

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

/// An upper bound of the bytes before the values of a piece.
const FIELDS: usize = 40;

#[derive(Debug, Clone, PartialEq)]
pub struct Piece(pub(crate) PieceBody);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PieceBody {
    Head(PieceHead),
    Slice { slice: SliceId, steps: u32, version: u64, values: Vec<f32> },
    Rows { table: TableId, count: u32, words: Vec<u32> },
    WaitingRows { batch: BatchId, table: TableId, keys: Vec<u64>, gradients: Vec<f32> },
    WaitingSlice { batch: BatchId, slice: SliceId, offset: u32, gradient: Vec<f32> },
    End(Totals),
}

/// The first piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PieceHead {
    pub(crate) partition: PartitionId,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) version: u64,
    pub(crate) history: History,
    pub(crate) slices: Vec<SliceHead>,
    /// Batches buffered for a synchronous step, including those without gradients in this partition.
    pub(crate) waiting: Vec<BatchId>,
}

/// Step count and version of a slice, without its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SliceHead {
    pub(crate) slice: SliceId,
    pub(crate) steps: u32,
    pub(crate) version: u64,
}

/// The last piece: counts to verify completeness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Totals {
    pub(crate) rows: u64,
    pub(crate) waiting: u64,
}

/// The bytes do not encode a piece.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PieceError {
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error("a block of kind {kind} with {bytes} bytes is not a piece of a partition")]
    Malformed { kind: u32, bytes: usize },
}

impl Piece {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size());
        self.put(&mut out);
        out
    }

    /// Decodes exactly one piece; trailing bytes are an error.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PieceError> {
        let (block, rest) = block::take(bytes)?;
        match rest.is_empty() {
            true => Self::of_block(block),
            false => Err(PieceError::Malformed { kind: block.kind, bytes: bytes.len() }),
        }
    }

    /// Decodes the contents of a block whose checksum was verified.
    pub fn from_contents(kind: u32, bytes: &[u8]) -> Result<Self, PieceError> {
        Self::of_block(Block { kind, bytes })
    }

    pub(crate) fn of_block(block: Block<'_>) -> Result<Self, PieceError> {
        let malformed = PieceError::Malformed { kind: block.kind, bytes: block.bytes.len() };
        read(block).map(Self).ok_or(malformed)
    }

    /// An estimate of the encoded size.
    fn size(&self) -> usize {
        let values = match &self.0 {
            PieceBody::Slice { values, .. } => size_of_val(values.as_slice()),
            PieceBody::Rows { words, .. } => size_of_val(words.as_slice()),
            PieceBody::WaitingRows { keys, gradients, .. } => {
                size_of_val(keys.as_slice()) + size_of_val(gradients.as_slice())
            }
            PieceBody::WaitingSlice { gradient, .. } => size_of_val(gradient.as_slice()),
            PieceBody::Head(_) | PieceBody::End(_) => 0,
        };
        HEAD_BYTES + FIELDS + values
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        block::put_with(out, |out| write(&self.0, out));
    }
}

fn write(part: &PieceBody, out: &mut Vec<u8>) -> u32 {
    match part {
        PieceBody::Head(head) => {
            write_json(out, head);
            HEAD
        }
        PieceBody::Slice { slice, steps, version, values } => {
            put_slice(out, *slice);
            put_u32(out, *steps);
            put_u64(out, *version);
            put_u32(out, values.len() as u32);
            put_floats(out, values);
            SLICE
        }
        PieceBody::Rows { table, count, words } => {
            put_u32(out, table.0);
            put_u32(out, *count);
            put_u32(out, words.len() as u32);
            put_words(out, words);
            ROWS
        }
        PieceBody::WaitingRows { batch, table, keys, gradients } => {
            put_batch(out, *batch);
            put_u32(out, table.0);
            put_u32(out, keys.len() as u32);
            put_u32(out, gradients.len() as u32);
            put_longs(out, keys);
            put_floats(out, gradients);
            WAITING_ROWS
        }
        PieceBody::WaitingSlice { batch, slice, offset, gradient } => {
            put_batch(out, *batch);
            put_slice(out, *slice);
            put_u32(out, *offset);
            put_u32(out, gradient.len() as u32);
            put_floats(out, gradient);
            WAITING_SLICE
        }
        PieceBody::End(totals) => {
            write_json(out, totals);
            END
        }
    }
}

fn read(block: Block<'_>) -> Option<PieceBody> {
    let mut fields = Reader(block.bytes);
    let part = match block.kind {
        HEAD => return serde_json::from_slice(block.bytes).ok().map(PieceBody::Head),
        END => return serde_json::from_slice(block.bytes).ok().map(PieceBody::End),
        SLICE => {
            let (slice, steps, version) = (take_slice(&mut fields)?, fields.u32()?, fields.u64()?);
            let count = fields.u32()?;
            PieceBody::Slice { slice, steps, version, values: fields.floats(count as usize)? }
        }
        ROWS => {
            let (table, count, words) = (TableId(fields.u32()?), fields.u32()?, fields.u32()?);
            PieceBody::Rows { table, count, words: fields.words(words as usize)? }
        }
        WAITING_ROWS => {
            let (batch, table) = (take_batch(&mut fields)?, TableId(fields.u32()?));
            let (keys, gradients) = (fields.u32()?, fields.u32()?);
            let (keys, gradients) = (fields.longs(keys as usize)?, fields.floats(gradients as usize)?);
            PieceBody::WaitingRows { batch, table, keys, gradients }
        }
        WAITING_SLICE => {
            let (batch, slice, offset) = (take_batch(&mut fields)?, take_slice(&mut fields)?, fields.u32()?);
            let count = fields.u32()?;
            PieceBody::WaitingSlice { batch, slice, offset, gradient: fields.floats(count as usize)? }
        }
        _ => return None,
    };
    fields.is_empty().then_some(part)
}

fn write_json(out: &mut Vec<u8>, value: &impl Serialize) {
    // Serialising numbers and lists into memory cannot fail.
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
