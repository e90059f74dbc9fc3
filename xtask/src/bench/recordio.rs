//! Reads ranges of records from RecordIO shards: ours against decoding the whole chunk for every range.
//!
//! The shards look like ElasticDL's MNIST: 4,096 records of 3,174 bytes in one chunk of snappy, with a frame for each
//! length and each record. ElasticDL's reader decompresses and checksums the chunk for any range of it. The peer does
//! the same in Rust ([`whole_chunk`]); the time of the original is shown beside it. Both sides read the same ranges in
//! sequence from cached files; time and CPU are of one thread.

mod shards;
mod whole_chunk;

use std::time::Instant;

use anyhow::{Result, ensure};
use flexor_data::{Content, Dataset, Options};

use self::shards::{RECORDS, Shards};
use super::process_cost::thread_cpu_seconds;
use super::row::Row;

/// How many shards: MNIST's training set has 15.
const SHARDS: u64 = 15;
/// The number of records of a range, and the target speedup over full chunks.
const RANGES: [(u64, f64); 3] = [(64, 20.0), (512, 1.0), (4096, 1.0)];
/// How many ranges the peer reads of each size. Its time does not depend on the range.
const PEER_RANGES: u64 = 12;
/// CPU for any range of a 13 MB chunk with the original's reader, in milliseconds, as published.
const PUBLISHED_MS: f64 = 245.0;
const PEER: &str = "whole chunk decoded for every range";

struct RecordioSample {
    records_per_second: f64,
    cpu_ms_per_range: f64,
}

pub(super) fn run(repeats: u32) -> Result<Vec<Row>> {
    let shards = Shards::write(SHARDS)?;
    let mut rows = Vec::new();
    for (size, target) in RANGES {
        let (mut ours, mut cold, mut peer) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repeats {
            let first_touch = play_ours(&shards, size, Memory::Fresh)?;
            let sample = play_ours(&shards, size, Memory::Kept)?;
            let theirs = play_peer(&shards, size)?;
            let rates = [&sample, &first_touch, &theirs].map(|one| one.records_per_second);
            eprintln!(
                "ranges of {size}: {:.0} records/s, {:.0} at first touch, {:.0} {PEER}",
                rates[0], rates[1], rates[2]
            );
            ours.push(sample);
            cold.push(first_touch);
            peer.push(theirs);
        }
        let rate = |side: &[RecordioSample]| side.iter().map(|one| one.records_per_second).collect::<Vec<_>>();
        let cpu = |side: &[RecordioSample]| side.iter().map(|one| one.cpu_ms_per_range).collect::<Vec<_>>();
        let metric = |what: &str| format!("ranges of {size} of MNIST-shaped shards: {what}");
        let (ours_rate, cold_rate, peer_rate) = (rate(&ours), rate(&cold), rate(&peer));
        rows.push(Row::rate(&metric("records"), "records/s", &ours_rate, PEER, &peer_rate, target)?);
        rows.push(Row::rate(&metric("every chunk new"), "records/s", &cold_rate, PEER, &peer_rate, 1.0)?);
        rows.push(Row::cost(&metric("CPU for one"), "ms", &cpu(&ours), PEER, &cpu(&peer), target)?);
        rows.push(Row::published(&metric("CPU for one"), "ms", &cpu(&ours), "ElasticDL's reader", PUBLISHED_MS)?);
    }
    Ok(rows)
}

/// Whether chunks have been touched before they are measured.
#[derive(Clone, Copy, PartialEq)]
enum Memory {
    Fresh,
    Kept,
}

fn play_ours(shards: &Shards, size: u64, memory: Memory) -> Result<RecordioSample> {
    let dataset = Dataset::open(&[shards.folder().to_owned()], &Options::default())?;
    let ranges = match memory {
        // One range of each shard: none has been touched before.
        Memory::Fresh => shards::one_of_each(SHARDS, size),
        Memory::Kept => shards::scattered(SHARDS, size),
    };
    if memory == Memory::Kept {
        dataset.read(0..dataset.len(), &mut |_| {})?;
    }
    let mut bytes = 0;
    measured(size, &ranges, &mut |first| {
        dataset.read(first..first + size, &mut |record| {
            if let Content::Whole(whole) = record.content {
                bytes += whole.len() as u64;
            }
        })?;
        Ok(())
    })
    .and_then(|sample| {
        ensure!(bytes == size * ranges.len() as u64 * shards::RECORD_BYTES, "records are missing");
        Ok(sample)
    })
}

fn play_peer(shards: &Shards, size: u64) -> Result<RecordioSample> {
    let mut ranges = shards::scattered(SHARDS, size);
    ranges.truncate(PEER_RANGES as usize);
    let mut bytes = 0;
    let sample = measured(size, &ranges, &mut |first| {
        let shard = shards.path(first / RECORDS);
        let in_shard = (first % RECORDS) as usize;
        let records = whole_chunk::read(&shard, in_shard..in_shard + size as usize)?;
        bytes += records.iter().map(|record| record.len() as u64).sum::<u64>();
        Ok(())
    })?;
    ensure!(bytes == size * ranges.len() as u64 * shards::RECORD_BYTES, "records are missing");
    Ok(sample)
}

fn measured(size: u64, firsts: &[u64], read: &mut dyn FnMut(u64) -> Result<()>) -> Result<RecordioSample> {
    let (began, cpu) = (Instant::now(), thread_cpu_seconds()?);
    for first in firsts {
        read(*first)?;
    }
    let (wall, cpu) = (began.elapsed().as_secs_f64(), thread_cpu_seconds()? - cpu);
    let ranges = firsts.len() as f64;
    Ok(RecordioSample { records_per_second: ranges * size as f64 / wall, cpu_ms_per_range: 1000.0 * cpu / ranges })
}
