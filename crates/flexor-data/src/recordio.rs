//! RecordIO, the file format of ElasticDL: chunks of records, each compressed and checksummed by itself.
//!
//! ```text
//! file  = chunk*                                    no header, no footer; an empty file has no records
//! chunk = magic checksum compressor size records    five u32, little-endian, then `size` bytes of payload
//! payload, decompressed = (length: u32, bytes)*
//! ```
//!
//! [`Index`] finds the chunks by jumping from header to header, and reads any range of records. Inside a chunk it reads
//! no further than needed, and [`ChunkCache`] remembers positions on the way: a small range costs a small read. The
//! checksum of a chunk is checked once per process, at the first read of the chunk. Snappy blocks have checksums of their
//! own, which are checked at every decompression. [`Writer`] writes such files. Damage is found and named here; callers
//! decide what to do about it.

mod chunk;
mod chunk_cache;
mod flaw;
mod frames;
mod header;
mod index;
mod payload;
#[cfg(test)]
mod tests;
mod writer;

pub use chunk_cache::{ChunkCache, FileKey};
pub use flaw::{Flaw, ReadError, Unread};
pub use header::{Compressor, Header};
pub use index::{Chunk, Index, Lost};
pub use writer::{DEFAULT_CHUNK_LIMIT, MOST_CHUNK_LIMIT, WriteError, Writer, WriterOptions, Written};
