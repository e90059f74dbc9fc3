//! What can be wrong with a chunk.

use std::io;
use std::ops::Range;

use thiserror::Error;

/// How a chunk contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Flaw {
    /// Something else stands where a chunk should begin.
    #[error("no chunk begins here: the magic number is {found:#010x}, not 0x01020304")]
    Magic {
        /// What stands there.
        found: u32,
    },
    /// A compressor that nobody has heard of.
    #[error("unknown compressor {number}; there are 0 (none), 1 (snappy) and 2 (gzip)")]
    Compressor {
        /// Its number.
        number: u32,
    },
    /// More records than the payload can hold, whatever it is compressed with.
    #[error("the header promises {records} records in {size} bytes, which cannot be")]
    Implausible {
        /// How many records.
        records: u32,
        /// The size of the payload.
        size: u32,
    },
    /// The file ends inside the chunk.
    #[error("the file ends {missing} bytes before the chunk does")]
    CutShort {
        /// How much is missing.
        missing: u64,
    },
    /// Some bit of the payload is not what was written.
    #[error("checksum mismatch: the header says {stored:#010x}, the payload gives {computed:#010x}")]
    Checksum {
        /// What the header says.
        stored: u32,
        /// What the payload gives.
        computed: u32,
    },
    /// The compressed data contradicts itself.
    #[error("the compressed data is broken: {0}")]
    Compressed(String),
    /// The payload is over before all records have come.
    #[error("the payload ends inside record {record} of the chunk")]
    TooFew {
        /// The record, counted from the beginning of the chunk.
        record: u32,
    },
    /// The payload goes on behind the last record.
    #[error("the payload has more in it than the header promises")]
    TooMany,
    /// More than is ever decompressed.
    #[error("the chunk decompresses to more than {limit} bytes")]
    TooLarge {
        /// The most that is.
        limit: u64,
    },
}

/// Why reading stopped inside a chunk.
#[derive(Debug, Error)]
pub enum Unread {
    /// The chunk is damaged.
    #[error(transparent)]
    Flaw(#[from] Flaw),
    /// The file cannot be read, or is shorter than it was.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Records that could not be read.
#[derive(Debug, Error)]
#[error("{cause}")]
pub struct ReadError {
    /// Where the chunk begins in the file.
    pub offset: u64,
    /// Which records of the file are lost, whether they were asked for or not.
    pub lost: Range<u64>,
    /// The first of those asked for that is lost. Those before it have been handed on.
    pub from: u64,
    /// Why.
    pub cause: Unread,
}
