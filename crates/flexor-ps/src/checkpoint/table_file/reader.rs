//! Reading a table file: what it has, and single partitions of it.

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

/// A table file that can be read.
#[derive(Debug)]
pub struct TableFile {
    tables: Tables,
    extents: Vec<Extent>,
}

/// A table file that cannot be read.
#[derive(Debug, Error)]
pub enum TableFileError {
    /// The bytes could not be had.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// The bytes are not those of a table file.
    #[error("at byte {offset}: {why}")]
    Damaged {
        /// Where.
        offset: u64,
        /// What was found.
        why: String,
    },
}

impl TableFile {
    /// Opens a file of `size` bytes, of which `read` gives ranges.
    pub fn open(size: u64, read: &mut dyn FnMut(Range<u64>) -> io::Result<Vec<u8>>) -> Result<Self, TableFileError> {
        if size < BEGIN.len() as u64 + TAIL_BYTES {
            return Err(damaged(0, format!("{size} bytes are no table file")));
        }
        if read(0..BEGIN.len() as u64)? != BEGIN {
            return Err(damaged(0, "it does not begin as a table file"));
        }
        let tail_at = size - TAIL_BYTES;
        let tail = read(tail_at..size)?;
        let (place, magic) = tail.split_at_checked(8).unwrap_or_default();
        let place = Reader(place).u64().filter(|place| magic == FINISH && *place < tail_at);
        let place = place.ok_or_else(|| damaged(tail_at, "it does not end as a table file"))?;

        let (extents, end) = json_block::<Vec<Extent>>(PARTITIONS, place, tail_at, read)?;
        if end != tail_at {
            return Err(damaged(end, "there is something behind the list of partitions"));
        }
        let (tables, first) = json_block::<Tables>(TABLES, BEGIN.len() as u64, place, read)?;
        if tables.format != FORMAT {
            let why = format!("format {} is unknown, this program reads format {FORMAT}", tables.format);
            return Err(damaged(BEGIN.len() as u64, why));
        }
        let outside = |extent: &&Extent| {
            extent.offset < first || extent.offset.checked_add(extent.bytes).is_none_or(|end| end > place)
        };
        match extents.iter().find(outside) {
            Some(extent) => Err(damaged(place, format!("partition {} lies outside of the file", extent.partition))),
            None => Ok(Self { tables, extents }),
        }
    }

    /// The model of which this has rows.
    pub fn fingerprint(&self) -> Fingerprint {
        self.tables.fingerprint
    }

    /// The partitions that are in it.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.extents.iter().map(|extent| extent.partition)
    }

    /// The pieces of a partition; none if it is not in the file.
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
            let (block, behind) = block::take(rest).map_err(|error| damaged(offset, error))?;
            pieces.push(Piece::of_block(block).map_err(|error| damaged(offset, error))?);
            rest = behind;
        }
        Ok(pieces)
    }
}

/// Reads a block of JSON that begins at a place and ends before another.
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
        return Err(damaged(offset, format!("a block of kind {} stands where {kind} should", block.kind)));
    }
    let value = serde_json::from_slice(block.bytes).map_err(|error| damaged(offset, error))?;
    Ok((value, block_end))
}

fn damaged(offset: u64, why: impl ToString) -> TableFileError {
    TableFileError::Damaged { offset, why: why.to_string() }
}
