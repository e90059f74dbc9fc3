//! Writes RecordIO.
//!
//! Records are gathered until their bytes would pass the limit of a chunk, then compressed and written as one. The frames
//! of snappy are filled: unlike in files of the original, lengths have no frames of their own.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use thiserror::Error;

use super::header::{Compressor, Header};

/// How many bytes of records a chunk holds at most, as the original has it.
pub const DEFAULT_CHUNK_LIMIT: u32 = 32 << 20;

/// The largest limit that can be set; a chunk is held in memory until it is full.
pub const MOST_CHUNK_LIMIT: u32 = 1 << 30;

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterOptions {
    /// How chunks are compressed.
    pub compressor: Compressor,
    /// How many bytes of records a chunk holds at most, their lengths not counted; 1 to [`MOST_CHUNK_LIMIT`].
    pub chunk_limit: u32,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { compressor: Compressor::Snappy, chunk_limit: DEFAULT_CHUNK_LIMIT }
    }
}

/// Why a record was not written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// It would not fit into a chunk.
    #[error(
        "a record of {length} bytes does not fit into a chunk of {limit}; write smaller records, or set a larger limit"
    )]
    TooLong {
        /// Its length.
        length: usize,
        /// How many bytes of records a chunk holds.
        limit: u32,
    },
    /// The output refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What has been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// How many records.
    pub records: u64,
    /// In how many chunks.
    pub chunks: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// Writes records to a file, or to anything else that takes bytes.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    options: WriterOptions,
    /// Lengths and bytes of the records of the chunk that is being filled.
    pending: Vec<u8>,
    pending_records: u32,
    written: Written,
}

impl<W: Write> Writer<W> {
    /// A writer of an empty file. Call [`Writer::finish`] at the end: what is gathered by then is not written otherwise.
    pub fn new(out: W, options: WriterOptions) -> Self {
        let chunk_limit = options.chunk_limit.clamp(1, MOST_CHUNK_LIMIT);
        let options = WriterOptions { chunk_limit, ..options };
        Self { out, options, pending: Vec::new(), pending_records: 0, written: Written::default() }
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// It is as long as a whole chunk or longer, and nothing has been written; or the output refuses.
    pub fn write(&mut self, record: &[u8]) -> Result<(), WriteError> {
        let limit = self.options.chunk_limit;
        if record.len() >= limit as usize {
            return Err(WriteError::TooLong { length: record.len(), limit });
        }
        let lengths = 4 * self.pending_records as usize;
        let gathered = self.pending.len() - lengths;
        // Records of no bytes would fill memory and never a chunk.
        if gathered + record.len() > limit as usize || lengths >= MOST_CHUNK_LIMIT as usize {
            self.write_chunk()?;
        }
        self.pending.extend_from_slice(&(record.len() as u32).to_le_bytes());
        self.pending.extend_from_slice(record);
        self.pending_records += 1;
        Ok(())
    }

    /// Writes what is left and says what was written in all.
    ///
    /// # Errors
    ///
    /// The output refuses.
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
