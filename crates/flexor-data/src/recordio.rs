//! RecordIO, as ElasticDL and its data files know it: chunks of records, compressed and checksummed each by itself.
//!
//! ```text
//! file  = chunk*                                    no header, no footer; an empty file has no records
//! chunk = magic checksum compressor size records    five u32, little-endian, then `size` bytes of payload
//! payload, decompressed = (length: u32, bytes)*
//! ```
//!
//! [`Index`] finds the chunks by hopping from header to header and reads any range of records. Inside a chunk it goes
//! no further than it must, and [`Chunks`] remembers what was learnt on the way: a small range costs a small read. The
//! checksum of a chunk is taken once per process, when the chunk is touched first; blocks of snappy carry checksums of
//! their own, which are looked at whenever a block is decompressed. [`Writer`] makes such files. What becomes of damage
//! is decided elsewhere: here it is found and named.

mod chunk;
mod chunks;
mod flaw;
mod frames;
mod header;
mod index;
mod payload;
#[cfg(test)]
mod tests;
mod writer;

pub use chunks::{Chunks, FileKey};
pub use flaw::{Flaw, ReadError, Unread};
pub use header::{Compressor, Header};
pub use index::{Chunk, Index, Lost};
pub use writer::{DEFAULT_CHUNK_LIMIT, MOST_CHUNK_LIMIT, WriteError, Writer, WriterOptions, Written};
