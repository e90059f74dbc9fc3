//! Writes RecordIO.
//!
//! Records are collected until their bytes would exceed the limit of a chunk, then compressed and written as one chunk.
//! Snappy frames are filled: unlike in the original's files, lengths have no frames of their own.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use thiserror::Error;

use super::header::{Compressor, Header};

/// Bytes of records per chunk, as in the original.
pub const DEFAULT_CHUNK_LIMIT: u32 = 32 << 20;

/// The largest possible limit; a chunk is held in memory until it is full.
pub const MOST_CHUNK_LIMIT: u32 = 1 << 30;

/// Options of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// The compression of chunks.
    pub compressor: Compressor,
    /// The most bytes of records per chunk, without their lengths; 1 to [`MOST_CHUNK_LIMIT`].
    pub chunk_limit: u32,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { compressor: Compressor::Snappy, chunk_limit: DEFAULT_CHUNK_LIMIT }
    }
}

#[derive(Debug, Error)]
pub enum WriteError {
    /// The record does not fit into a chunk.
    #[error(
        "a record of {length} bytes does not fit into a chunk of {limit}; write smaller records, or set a larger limit"
    )]
    TooLong { length: usize, limit: u32 },
    /// The output fails.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Counts of written data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    pub records: u64,
    pub chunks: u64,
    pub bytes: u64,
}

/// Writes records to any output.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    options: WriterOptions,
    /// Lengths and bytes of the records in the current chunk.
    pending: Vec<u8>,
    pending_records: u32,
    written: Written,
}

impl<W: Write> Writer<W> {
    /// A writer of an empty file. [`Writer::finish`] must be called: otherwise the current chunk is not written.
    pub fn new(out: W, options: WriterOptions) -> Self {
        let chunk_limit = options.chunk_limit.clamp(1, MOST_CHUNK_LIMIT);
        let options = WriterOptions { chunk_limit, ..options };
        Self { out, options, pending: Vec::new(), pending_records: 0, written: Written::default() }
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// The record fills a chunk or more, and nothing was written; or the output fails.
    pub fn write(&mut self, record: &[u8]) -> Result<(), WriteError> {
        let limit = self.options.chunk_limit;
        if record.len() >= limit as usize {
            return Err(WriteError::TooLong { length: record.len(), limit });
        }
        let lengths = 4 * self.pending_records as usize;
        let gathered = self.pending.len() - lengths;
        // Empty records would fill memory and never a chunk.
        if gathered + record.len() > limit as usize || lengths >= MOST_CHUNK_LIMIT as usize {
            self.write_chunk()?;
        }
        self.pending.extend_from_slice(&(record.len() as u32).to_le_bytes());
        self.pending.extend_from_slice(record);
        self.pending_records += 1;
        Ok(())
    }

    /// Writes the last chunk, and returns the counts.
    ///
    /// # Errors
    ///
    /// The output fails.
    pub fn finish(mut self) -> io::Result<(W, Written)> {
        self.write_chunk()?;
        self.out.flush()?;
        Ok((self.out, self.written))
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        if self.pending_records == 0 {
            return Ok(());
        }
        let packed = match self.options.compressor {
            Compressor::None => None,
            Compressor::Snappy => {
                let mut encoder = snap::write::FrameEncoder::new(Vec::new());
                encoder.write_all(&self.pending)?;
                Some(encoder.into_inner().map_err(snap::write::IntoInnerError::into_error)?)
            }
            Compressor::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(&self.pending)?;
                Some(encoder.finish()?)
            }
        };
        let payload = packed.as_ref().unwrap_or(&self.pending);
        let size = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let checksum = crc32fast::hash(payload);
        let header = Header { checksum, compressor: self.options.compressor, size, records: self.pending_records };
        self.out.write_all(&header.to_bytes())?;
        self.out.write_all(payload)?;
        self.written.records += u64::from(self.pending_records);
        self.written.chunks += 1;
        self.written.bytes += Header::LENGTH as u64 + u64::from(size);
        self.pending.clear();
        self.pending_records = 0;
        Ok(())
    }
}
