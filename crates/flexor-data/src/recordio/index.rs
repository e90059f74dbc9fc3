//! Where the chunks of a file are, and which records each holds.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::chunk;
use super::chunks::{Chunks, FileKey};
use super::flaw::{Flaw, ReadError, Unread};
use super::header::Header;
use crate::read_at::ReadAt;

/// A chunk of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where its header begins.
    pub offset: u64,
    /// The number of its first record in the file.
    pub first: u64,
    /// What it says about itself.
    pub header: Header,
    /// What is wrong with it at first sight: the file ends inside it.
    pub flaw: Option<Flaw>,
}

/// The end of a file in which no chunk can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// Why.
    pub flaw: Flaw,
}

/// The chunks of a file, found by hopping from header to header.
#[derive(Debug, Clone, Default)]
pub struct Index {
    chunks: Vec<Chunk>,
    records: u64,
    lost: Option<Lost>,
}

impl Chunk {
    /// Which records of the file it holds.
    pub fn records(&self) -> Range<u64> {
        self.first..self.first + u64::from(self.header.records)
    }

    /// Where its payload begins.
    pub(super) fn payload(&self) -> u64 {
        self.offset + Header::LENGTH as u64
    }

    /// Where it ends.
    pub(super) fn end(&self) -> u64 {
        self.payload() + u64::from(self.header.size)
    }
}

impl Index {
    /// Finds the chunks. Payloads are not looked at.
    ///
    /// # Errors
    ///
    /// The file cannot be read. What is wrong with its content is part of the index.
    pub fn of(source: &dyn ReadAt) -> io::Result<Self> {
        let size = source.size()?;
        let mut index = Self::default();
        let mut offset = 0;
        while offset < size {
            let left = size - offset;
            let mut bytes = [0; Header::LENGTH];
            let header = if left < Header::LENGTH as u64 {
                Err(Flaw::CutShort { missing: Header::LENGTH as u64 - left })
            } else {
                source.read_exact_at(&mut bytes, offset)?;
                Header::read(&bytes)
            };
            let header = match header {
                Ok(header) => header,
                Err(flaw) => {
                    index.lost = Some(Lost { offset, bytes: left, flaw });
                    break;
                }
            };
            let mut chunk = Chunk { offset, first: index.records, header, flaw: None };
            let missing = chunk.end().saturating_sub(size);
            chunk.flaw = (missing > 0).then_some(Flaw::CutShort { missing });
            index.records += u64::from(header.records);
            offset = chunk.end();
            index.chunks.push(chunk);
        }
        Ok(index)
    }

    /// The chunks, in the order of the file.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// How many records the chunks say they hold.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The end of the file, where nothing can be found in it.
    pub fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// Hands on a range of records, each with its number in the file.
    ///
    /// # Errors
    ///
    /// The first record that cannot be had; those before it have been handed on.
    ///
    /// # Panics
    ///
    /// The range goes past the end of the file.
    pub fn read(
        &self,
        source: &dyn ReadAt,
        (chunks, file): (&Chunks, FileKey),
        range: Range<u64>,
        sink: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), ReadError> {
        assert!(range.end <= self.records, "records {range:?} of a file that has {}", self.records);
        let mut next = range.start;
        let first = self.chunks.partition_point(|chunk| chunk.records().end <= next);
        for chunk in &self.chunks[first..] {
            if next >= range.end {
                break;
            }
            // One without records is never touched, whatever is wrong with it.
            if chunk.header.records == 0 {
                continue;
            }
            let until = range.end.min(chunk.records().end);
            let wanted = (next - chunk.first) as u32..(until - chunk.first) as u32;
            let mut sink = |record: u32, bytes: &[u8]| sink(chunk.first + u64::from(record), bytes);
            read_chunk(source, chunk, (chunks, file), wanted, &mut sink).map_err(|(record, cause)| {
                let lost = chunk.first + u64::from(record)..chunk.records().end;
                ReadError { offset: chunk.offset, from: lost.start.max(next), lost, cause }
            })?;
            next = until;
        }
        Ok(())
    }
}

fn read_chunk(
    source: &dyn ReadAt,
    chunk: &Chunk,
    (chunks, file): (&Chunks, FileKey),
    wanted: Range<u32>,
    sink: &mut dyn FnMut(u32, &[u8]),
) -> Result<(), (u32, Unread)> {
    let whole = |cause: Unread| (0, cause);
    if let Some(flaw) = &chunk.flaw {
        return Err(whole(flaw.clone().into()));
    }
    let known = match chunks.get(file, chunk.offset) {
        Some(known) => known,
        None => {
            let known = Arc::new(chunk::verify(source, chunk).map_err(whole)?);
            chunks.put(file, chunk.offset, Arc::clone(&known));
            known
        }
    };
    chunk::read(source, chunk, &known, wanted, sink)
}
