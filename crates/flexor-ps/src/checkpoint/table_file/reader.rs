//! Reading a table file: its header, and single partitions.

use std::io;
use std::ops::Range;

use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{BEGIN, Extent, FINISH, FORMAT, PARTITIONS, TABLES, TAIL_BYTES, Tables};
use crate::block;
use crate::little_endian::Reader;
use crate::piece::Piece;
use crate::placement::PartitionId;
use crate::spec::Fingerprint;

#[derive(Debug)]
pub struct TableFile {
    tables: Tables,
    extents: Vec<Extent>,
}

/// The file cannot be read or is damaged.
#[derive(Debug, Error)]
pub enum TableFileError {
    #[error(transparent)]
    Read(#[from] io::Error),
    #[error("at byte {offset}: {why}")]
    Damaged { offset: u64, why: String },
}

impl TableFile {
    /// Opens a file of `size` bytes; `read` returns ranges of it.
    pub fn open(size: u64, read: &mut dyn FnMut(Range<u64>) -> io::Result<Vec<u8>>) -> Result<Self, TableFileError> {
        if size < BEGIN.len() as u64 + TAIL_BYTES {
            return Err(damaged(0, format!("a table file has more than {size} bytes")));
        }
        if read(0..BEGIN.len() as u64)? != BEGIN {
            return Err(damaged(0, "the start marker of a table file is missing"));
        }
        let tail_at = size - TAIL_BYTES;
        let tail = read(tail_at..size)?;
        let (list_at, magic) = tail.split_at_checked(8).unwrap_or_default();
        let list_at = Reader(list_at).u64().filter(|list_at| magic == FINISH && *list_at < tail_at);
        let list_at = list_at.ok_or_else(|| damaged(tail_at, "the end marker of a table file is missing"))?;

        let (extents, end) = json_block::<Vec<Extent>>(PARTITIONS, list_at, tail_at, read)?;
        if end != tail_at {
            return Err(damaged(end, "unexpected data follows the list of partitions"));
        }
        let (tables, first) = json_block::<Tables>(TABLES, BEGIN.len() as u64, list_at, read)?;
        if tables.format != FORMAT {
            let why = format!("format {} is unknown, this program reads format {FORMAT}", tables.format);
            return Err(damaged(BEGIN.len() as u64, why));
        }
        let outside = |extent: &&Extent| {
            extent.offset < first || extent.offset.checked_add(extent.bytes).is_none_or(|end| end > list_at)
        };
        match extents.iter().find(outside) {
            Some(extent) => {
                Err(damaged(list_at, format!("partition {} lies outside the data of the file", extent.partition)))
            }
            None => Ok(Self { tables, extents }),
        }
    }

    pub fn fingerprint(&self) -> Fingerprint {
        self.tables.fingerprint
    }

    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.extents.iter().map(|extent| extent.partition)
    }

    /// The pieces of a partition; empty if the file does not contain it.
    pub fn pieces(
        &self,
        partition: PartitionId,
        read: &mut dyn FnMut(Range<u64>) -> io::Result<Vec<u8>>,
    ) -> Result<Vec<Piece>, TableFileError> {
        let Some(extent) = self.extents.iter().find(|extent| extent.partition == partition) else {
            return Ok(Vec::new());
        };
        let bytes = read(extent.offset..extent.offset + extent.bytes)?;
        let (mut rest, mut pieces) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let offset = extent.offset + (bytes.len() - rest.len()) as u64;
            let (block, remaining) = block::take(rest).map_err(|error| damaged(offset, error))?;
            pieces.push(Piece::of_block(block).map_err(|error| damaged(offset, error))?);
            rest = remaining;
        }
        Ok(pieces)
    }
}

/// Reads a JSON block of this kind that starts at `offset` and ends at or before `end`.
fn json_block<T: DeserializeOwned>(
    kind: u32,
    offset: u64,
    end: u64,
    read: &mut dyn FnMut(Range<u64>) -> io::Result<Vec<u8>>,
) -> Result<(T, u64), TableFileError> {
    let head_end = offset + block::HEAD_BYTES as u64;
    if head_end > end {
        return Err(damaged(offset, "a block does not fit here"));
    }
    let size = block::size(&read(offset..head_end)?).map_err(|error| damaged(offset, error))?;
    let block_end = offset + size as u64;
    if block_end > end {
        return Err(damaged(offset, "a block is longer than the file"));
    }
    let bytes = read(offset..block_end)?;
    let (block, _) = block::take(&bytes).map_err(|error| damaged(offset, error))?;
    if block.kind != kind {
        return Err(damaged(offset, format!("a block of kind {} instead of {kind}", block.kind)));
    }
    let value = serde_json::from_slice(block.bytes).map_err(|error| damaged(offset, error))?;
    Ok((value, block_end))
}

fn damaged(offset: u64, why: impl ToString) -> TableFileError {
    TableFileError::Damaged { offset, why: why.to_string() }
}
