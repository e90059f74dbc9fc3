//! Shards as ElasticDL's tools write them, and the ranges to read.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use flexor_data::example::ExampleWriter;
use flexor_data::generate::digits;
use flexor_data::recordio::{Compressor, Header};
use tempfile::TempDir;

/// How many records a shard has.
pub(super) const RECORDS: u64 = 4096;
/// How long each is.
pub(super) const RECORD_BYTES: u64 = 3174;

/// A folder of shards.
pub(super) struct Shards(TempDir);

impl Shards {
    /// Draws and writes them: a frame for each length and for each record.
    pub(super) fn write(count: u64) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut examples = ExampleWriter::new();
        for shard in 0..count {
            let mut encoder = snap::write::FrameEncoder::new(Vec::new());
            for number in shard * RECORDS..(shard + 1) * RECORDS {
                let (label, pixels) = digits::draw(1, number);
                let record = digits::example(&mut examples, label, &pixels);
                for part in [&(record.len() as u32).to_le_bytes()[..], record] {
                    encoder.write_all(part)?;
                    encoder.flush()?;
                }
            }
            let payload = encoder.into_inner().map_err(snap::write::IntoInnerError::into_error)?;
            let (checksum, size) = (crc32fast::hash(&payload), payload.len() as u32);
            let header = Header { checksum, compressor: Compressor::Snappy, size, records: RECORDS as u32 };
            std::fs::write(path(folder.path(), shard), [&header.to_bytes()[..], &payload].concat())?;
        }
        Ok(Self(folder))
    }

    pub(super) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn path(&self, shard: u64) -> PathBuf {
        path(self.folder(), shard)
    }
}

fn path(folder: &Path, shard: u64) -> PathBuf {
    folder.join(format!("data-{shard:05}"))
}

/// Where ranges begin: all of all shards, in an order that jumps from shard to shard, as workers lease them.
pub(super) fn scattered(shards: u64, size: u64) -> Vec<u64> {
    let in_shard = RECORDS / size;
    let total = shards * in_shard;
    // 7,919 is a prime that divides no number of ranges here, so each range occurs once.
    (0..total).map(|at| (at * 7919) % total * size).collect()
}

/// One range of each shard, somewhere in it.
pub(super) fn one_of_each(shards: u64, size: u64) -> Vec<u64> {
    (0..shards).map(|shard| shard * RECORDS + (shard * 5 % (RECORDS / size)) * size).collect()
}
