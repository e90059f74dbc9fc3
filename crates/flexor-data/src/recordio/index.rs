//! The index of a file's chunks and their records.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::chunk;
use super::chunk_cache::{ChunkCache, FileKey};
use super::flaw::{Flaw, ReadError, Unread};
use super::header::Header;
use crate::read_at::ReadAt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of its header.
    pub offset: u64,
    pub first: u64,
    pub header: Header,
    /// A flaw that is visible without reading the payload: the file ends inside the chunk.
    pub flaw: Option<Flaw>,
}

/// The end of a file without a valid chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub offset: u64,
    pub bytes: u64,
    pub flaw: Flaw,
}

/// The chunks of a file, found by jumping from header to header.
#[derive(Debug, Clone, Default)]
pub struct Index {
    chunks: Vec<Chunk>,
    records: u64,
    lost: Option<Lost>,
}

impl Chunk {
    /// The chunk's records, numbered within the file.
    pub fn records(&self) -> Range<u64> {
        self.first..self.first + u64::from(self.header.records)
    }

    pub(super) fn payload(&self) -> u64 {
        self.offset + Header::LENGTH as u64
    }

    pub(super) fn end(&self) -> u64 {
        self.payload() + u64::from(self.header.size)
    }
}

impl Index {
    /// Finds the chunks without reading payloads.
    ///
    /// # Errors
    ///
    /// The file cannot be read. Damage is part of the index.
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

    /// The chunks, in file order.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Records by the chunks' headers.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The unreadable end of the file, if there is one.
    pub fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// Passes a range of records to `sink`, each with its number in the file.
    ///
    /// # Errors
    ///
    /// The first unreadable record; those before it were passed on.
    ///
    /// # Panics
    ///
    /// The range exceeds the file.
    pub fn read(
        &self,
        source: &dyn ReadAt,
        (chunks, file): (&ChunkCache, FileKey),
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
            // A chunk without records is never read, whatever its flaws.
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
    (chunks, file): (&ChunkCache, FileKey),
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
