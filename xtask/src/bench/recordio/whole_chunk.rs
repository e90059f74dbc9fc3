//! Reads a range as ElasticDL's reader does: it reads, checksums and decompresses the whole chunk, decodes its records
//! one by one, and takes the range.

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flexor_data::recordio::Header;

/// The records of a range of a file of one chunk.
pub(super) fn read(path: &Path, range: Range<usize>) -> Result<Vec<Vec<u8>>> {
    let file = std::fs::read(path)?;
    let (header, payload) = file.split_first_chunk().context("a shard without a header")?;
    let header = Header::read(header)?;
    ensure!(crc32fast::hash(payload) == header.checksum, "the checksum of {} is wrong", path.display());
    let mut unpacked = Vec::new();
    snap::read::FrameDecoder::new(payload).read_to_end(&mut unpacked)?;
    let mut left = &unpacked[..];
    let mut records = Vec::with_capacity(header.records as usize);
    while let Some((length, behind)) = left.split_first_chunk() {
        let (record, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize).context("a cut record")?;
        records.push(record.to_vec());
        left = behind;
    }
    Ok(records.drain(range).collect())
}
