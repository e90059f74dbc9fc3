//! The cost of data for the master: ours against DLRover's.
//!
//! There are two races. **The first lease** of a dataset that is shuffled record by record: ours computes the order of
//! a batch at its lease, through a real master with a journal. DLRover's splitter makes lists of all records and is
//! measured alone, in CPU time. Its datasets are a small part of ours, because its time grows with their square.
//! **Lease and acknowledge** at full speed, at both masters: a thousand workers hold a batch each, with 64 requests in
//! flight.

mod dataset;
mod dlrover;
mod native;
mod splitter;

use anyhow::{Context, Result};
use flexor_testbed::Dlrover;
use tokio::runtime::Runtime;

use self::dataset::{Dataset, grouped};
use self::native::ShardSample;
use self::splitter::SplitCost;
use super::dlrover_master;
use super::load::Load;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

const WORKERS: usize = 1000;

/// More repeats would take longer and show nothing new.
const MOST_REPEATS: u32 = 5;

/// Datasets that are shuffled record by record, smallest first, each beside one of DLRover's.
const SHUFFLED: [(Dataset, u64); 3] = [
    (Dataset::of_shuffled_records(1_000_000), 50_000),
    (Dataset::of_shuffled_records(100_000_000), 100_000),
    (Dataset::of_shuffled_records(1_000_000_000), 200_000),
];

/// The dataset for the comparison with DLRover's master.
const ALIKE: Dataset = Dataset::of_shuffled_batches(1_000_000);

/// Seconds until the first lease.
const FIRST_LEASE_MARK: f64 = 0.010;
/// MiB for a dataset, whatever its size: ranges and not records.
const GROWTH_MARK: f64 = 1.0;
/// The target as a multiple of DLRover's leases per second, and how many times less CPU each lease must take.
const RATE_TARGET: f64 = 20.0;
const CPU_TARGET: f64 = 10.0;
/// How much more a lease may cost from the largest dataset than from the smallest.
const FLAT: f64 = 1.2;
/// The master's memory, in MiB.
const RESIDENT_MARK: f64 = 30.0;

/// All repeats of one dataset.
type Samples = Vec<ShardSample>;

pub(super) fn run(repeats: u32) -> Result<Vec<Row>> {
    let flexor = compile::flexor(&project_root()?, "release")?;
    let runtime = Runtime::new().context("cannot start tokio")?;
    let dlrover = Dlrover::ensure()?;
    let mut shuffled: [Samples; SHUFFLED.len()] = Default::default();
    let mut splits: [Vec<SplitCost>; SHUFFLED.len()] = Default::default();
    let (mut alike, mut peer) = (Samples::new(), Vec::new());
    for _ in 0..repeats.min(MOST_REPEATS) {
        peer.push(print_load(dlrover_master::NAME, runtime.block_on(dlrover::run(&dlrover, WORKERS))?));
        let play = |dataset: Dataset| -> Result<ShardSample> {
            let sample = runtime.block_on(native::run(&flexor, dataset, WORKERS))?;
            let (seconds, mib) = (sample.first_lease, sample.growth_mib);
            eprintln!("{}: first lease {seconds:.4} s, {mib:.2} MiB", dataset.name());
            print_load("  and then", sample.load);
            Ok(sample)
        };
        alike.push(play(ALIKE)?);
        for (at, (ours, theirs)) in SHUFFLED.into_iter().enumerate() {
            shuffled[at].push(play(ours)?);
            let split = splitter::run(&dlrover, theirs)?;
            let (seconds, mib) = (split.cpu_seconds, split.growth_mib);
            eprintln!("{}, {} records: {seconds:.2} s CPU, {mib:.1} MiB", splitter::NAME, grouped(theirs));
            splits[at].push(split);
        }
    }
    let mut rows = Vec::new();
    for (((ours, theirs), samples), split) in SHUFFLED.iter().zip(&shuffled).zip(&splits) {
        rows.extend(first_lease_rows(*ours, samples, *theirs, split)?);
    }
    rows.extend(lease_rows(ALIKE, &alike, &peer)?);
    for ((dataset, _), samples) in SHUFFLED.iter().zip(&shuffled) {
        rows.extend(lease_rows(*dataset, samples, &peer)?);
    }
    rows.push(flat_row(&shuffled, &splits)?);
    Ok(rows)
}

fn first_lease_rows(dataset: Dataset, ours: &[ShardSample], theirs: u64, peer: &[SplitCost]) -> Result<[Row; 2]> {
    let name = dataset.name();
    let peer_name = format!("{}, {} records", splitter::NAME, grouped(theirs));
    let time = format!("{name}: registered and a first batch leased");
    let memory = format!("{name}: memory for that");
    let (our_time, our_memory) = (of(ours, |one| one.first_lease), of(ours, |one| one.growth_mib));
    let (peer_time, peer_memory) = (of(peer, |one| one.cpu_seconds), of(peer, |one| one.growth_mib));
    Ok([
        Row::seconds_within(&time, &our_time, &peer_name, &peer_time, FIRST_LEASE_MARK)?,
        Row::cost_within(&memory, "MiB", &our_memory, &peer_name, &peer_memory, GROWTH_MARK)?,
    ])
}

fn lease_rows(dataset: Dataset, ours: &[ShardSample], peer: &[Load]) -> Result<[Row; 3]> {
    let metric = |what: &str| format!("{WORKERS} workers, {}: {what}", dataset.name());
    let (rate, cpu, memory) =
        (metric("lease and acknowledge"), metric("CPU for each"), metric("RSS, a lease open each"));
    let ours: Vec<Load> = ours.iter().map(|one| one.load).collect();
    let both = |number: fn(&Load) -> f64| (of(&ours, number), of(peer, number));
    let (our_rate, peer_rate) = both(|load| load.per_second);
    let (our_cpu, peer_cpu) = both(|load| load.cpu_micros);
    let (our_memory, peer_memory) = both(|load| load.resident_mib);
    let name = dlrover_master::NAME;
    Ok([
        Row::rate(&rate, "pairs/s", &our_rate, name, &peer_rate, RATE_TARGET)?,
        Row::cost(&cpu, "us", &our_cpu, name, &peer_cpu, CPU_TARGET)?,
        Row::cost_within(&memory, "MiB", &our_memory, name, &peer_memory, RESIDENT_MARK)?,
    ])
}

/// How much more a batch costs from the largest dataset than from the smallest.
fn flat_row(ours: &[Samples; SHUFFLED.len()], peer: &[Vec<SplitCost>; SHUFFLED.len()]) -> Result<Row> {
    let [(small, few), .., (large, many)] = SHUFFLED;
    let [our_small, .., our_large] = ours;
    let [peer_small, .., peer_large] = peer;
    let metric = format!(
        "CPU for a lease, {} records against {}; {} against {} for the peer",
        grouped(large.records),
        grouped(small.records),
        grouped(many),
        grouped(few)
    );
    let times = |large: Vec<f64>, small: Vec<f64>| large.iter().zip(&small).map(|(l, s)| l / s).collect::<Vec<_>>();
    let cpu = |samples: &Samples| of(samples, |one| one.load.cpu_micros);
    let per_record = |splits: &[SplitCost], records: u64| {
        splits.iter().map(|one| one.cpu_seconds / records as f64).collect::<Vec<_>>()
    };
    let ours = times(cpu(our_large), cpu(our_small));
    let peer = times(per_record(peer_large, many), per_record(peer_small, few));
    Row::cost_within(&metric, "times", &ours, splitter::NAME, &peer, FLAT)
}

fn of<T>(samples: &[T], number: impl Fn(&T) -> f64) -> Vec<f64> {
    samples.iter().map(number).collect()
}

fn print_load(side: &str, load: Load) -> Load {
    let Load { per_second, cpu_micros, resident_mib } = load;
    eprintln!(
        "{side}: {per_second:.0} leases and acknowledgements/s, {cpu_micros:.1} us CPU, RSS {resident_mib:.1} MiB"
    );
    load
}
