//! The flaws of a damaged chunk.

use std::io;
use std::ops::Range;

use thiserror::Error;

/// Why a chunk is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Flaw {
    /// The magic number is wrong.
    #[error("no chunk begins here: the magic number is {found:#010x}, not 0x01020304")]
    Magic { found: u32 },
    /// The compressor is unknown.
    #[error("unknown compressor {number}; there are 0 (none), 1 (snappy) and 2 (gzip)")]
    Compressor { number: u32 },
    /// More records than the payload can hold, whatever it is compressed with.
    #[error("the header has {records} records in {size} bytes, which is impossible")]
    Implausible { records: u32, size: u32 },
    /// The file ends inside the chunk.
    #[error("the file ends {missing} bytes before the chunk does")]
    CutShort { missing: u64 },
    /// The payload's checksum is wrong.
    #[error("checksum mismatch: the header says {stored:#010x}, the payload gives {computed:#010x}")]
    Checksum {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the payload.
        computed: u32,
    },
    /// The compressed data is invalid.
    #[error("the compressed data is broken: {0}")]
    Compressed(String),
    /// The payload ends before its last record.
    #[error("the payload ends inside record {record} of the chunk")]
    TooFew {
        /// The missing record, numbered within the chunk.
        record: u32,
    },
    /// The payload continues behind its last record.
    #[error("the payload continues behind its last record")]
    TooMany,
    /// The payload exceeds the limit of decompression.
    #[error("the chunk decompresses to more than {limit} bytes")]
    TooLarge { limit: u64 },
}

/// Why reading stopped inside a chunk.
#[derive(Debug, Error)]
pub enum Unread {
    /// The chunk is damaged.
    #[error(transparent)]
    Flaw(#[from] Flaw),
    /// An I/O error, also if the file is shorter than before.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Records that cannot be read.
#[derive(Debug, Error)]
#[error("{cause}")]
pub struct ReadError {
    /// The chunk's first byte in the file.
    pub offset: u64,
    /// The unreadable records of the file, requested or not.
    pub lost: Range<u64>,
    /// The first unreadable record of the request. Those before it were passed on.
    pub from: u64,
    pub cause: Unread,
}
