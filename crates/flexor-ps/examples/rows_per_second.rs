//! A benchmark of one server's state without a network: rows pulled and pushed per second, and memory per row.
//!
//! `cargo run --release -p flexor-ps --example rows_per_second [-- THREADS]`
//!
//! It has a million keys and batches of 6,656 keys with a cubic skew, as in a click log. Every key is touched once (the
//! first column of rates), then batches are pulled, and pulled and pushed. Rates are per second of CPU time of one
//! thread, so that other programs disturb little. The last column is the wall-clock rate of all threads.

use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flexor_ps::buckets::Buckets;
use flexor_ps::hosted::{HostedPartitions, ReadMode};
use flexor_ps::layout::{Layout, TableId};
use flexor_ps::partition::PushOptions;
use flexor_ps::placement::{NameHash, PartitionId};
use flexor_ps::push::{NonFinite, Push, RowGradients, RowKeys};
use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, TableSpec};

const KEYS: u64 = 1_000_000;
const BATCH: u64 = 6_656;
const BATCHES: usize = 64;
const MEASURED: Duration = Duration::from_secs(2);
const TABLE: TableId = TableId(0);

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let threads = std::env::args().nth(1).map_or(Ok(1), |text| text.parse::<u64>())?;
    println!("{threads} thread(s), {KEYS} keys, batches of {BATCH}");
    println!(
        "{:>8} {:>4} {:>14} {:>10} {:>12} {:>8} {:>14}",
        "", "dim", "first touch/s", "pull/s", "pull+push/s", "memory", "by the clock/s"
    );
    for optimizer in [Optimizer::sgd(0.1), Optimizer::adagrad(0.1), Optimizer::adam(0.001)] {
        for dim in [8, 16, 64] {
            measure(threads, optimizer, dim)?;
        }
    }
    Ok(())
}

fn measure(threads: u64, optimizer: Optimizer, dim: u32) -> Outcome {
    let tables = vec![TableSpec { name: "clicks".to_owned(), dim, init: Initializer::UNIFORM }];
    let layout = Layout::new(ModelSpec { variables: vec![], tables, optimizer, seed: 1 })?;
    let hosted = HostedPartitions::new(Arc::clone(&layout));
    hosted.make(PartitionId::all());

    let mut client = Client::new(&layout, 0)?;
    let begun = processor_time()?;
    for first in (0..KEYS).step_by(BATCH as usize) {
        let keys: Vec<u64> = (first..KEYS.min(first + BATCH)).collect();
        client.pull(&hosted, &keys)?;
    }
    let first_touch = KEYS as f64 / (processor_time()? - begun).as_secs_f64();

    let (pull, _) = rate(threads, &layout, &hosted, Client::pull)?;
    let (both, by_the_clock) = rate(threads, &layout, &hosted, |client, hosted, keys| {
        client.pull(hosted, keys)?;
        client.push(hosted, keys)
    })?;
    let payload = KEYS as f64 * f64::from(8 + dim * 4 * (1 + optimizer.slots().len() as u32));
    let memory = hosted.load().bytes as f64 / payload;
    let [first_touch, pull, both, by_the_clock] = [first_touch, pull, both, by_the_clock].map(|rate| rate / 1e6);
    let name = optimizer.name();
    println!("{name:>8} {dim:>4} {first_touch:>13.2}M {pull:>9.2}M {both:>11.2}M {memory:>7.2}x {by_the_clock:>13.2}M");
    Ok(())
}

/// Keys per second of CPU time of one thread, and keys per wall-clock second of all threads.
fn rate(
    threads: u64,
    layout: &Arc<Layout>,
    hosted: &HostedPartitions,
    work: impl Fn(&mut Client, &HostedPartitions, &[u64]) -> Outcome + Sync,
) -> Outcome<(f64, f64)> {
    let begun = Instant::now();
    let run = |seed| -> Outcome<(f64, f64)> {
        let (mut client, batches) = (Client::new(layout, seed)?, batches(seed));
        let (begun, begun_processor, mut keys) = (Instant::now(), processor_time()?, 0);
        for batch in batches.iter().cycle() {
            work(&mut client, hosted, batch)?;
            keys += batch.len();
            if begun.elapsed() > MEASURED {
                break;
            }
        }
        Ok((keys as f64, (processor_time()? - begun_processor).as_secs_f64()))
    };
    let done = thread::scope(|scope| {
        let running: Vec<_> = (1..=threads).map(|seed| scope.spawn(move || run(seed))).collect();
        let done = running.into_iter().map(|running| running.join().map_err(|_| "a thread has panicked")?);
        done.collect::<Outcome<Vec<_>>>()
    })?;
    let (keys, processor) = done.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    Ok((keys / processor, keys / begun.elapsed().as_secs_f64()))
}

/// The CPU time of this thread.
fn processor_time() -> Outcome<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split(' ').next().ok_or("an empty schedstat")?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

/// Batches of skewed, distinct keys.
fn batches(seed: u64) -> Vec<Vec<u64>> {
    let mut dice = seed << 32;
    let mut key = || {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (dice >> 11) as f64 / (1_u64 << 53) as f64;
        (unit * unit * unit * KEYS as f64) as u64
    };
    let mut batch = || {
        let mut keys: Vec<u64> = (0..BATCH).map(|_| key()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    (0..BATCHES).map(|_| batch()).collect()
}

/// The buffers of a connection.
struct Client {
    dim: usize,
    name: NameHash,
    buckets: Buckets,
    values: Vec<f32>,
    gradients: Vec<f32>,
}

impl Client {
    fn new(layout: &Layout, seed: u64) -> Outcome<Self> {
        let dim = layout.dim(TABLE).ok_or("the model has no table")?;
        let name = layout.name_hash(TABLE).ok_or("the model has no table")?;
        let gradients = (0..BATCH as usize * dim).map(|i| (i as f32 + seed as f32).sin() * 0.01).collect();
        Ok(Self { dim, name, buckets: Buckets::default(), values: Vec::new(), gradients })
    }

    fn pull(&mut self, hosted: &HostedPartitions, keys: &[u64]) -> Outcome {
        self.buckets.sort(self.name, keys);
        let wanted = RowKeys { table: TABLE, keys, buckets: &self.buckets };
        hosted.pull(wanted, ReadMode::Train, &mut self.values)?;
        Ok(())
    }

    fn push(&mut self, hosted: &HostedPartitions, keys: &[u64]) -> Outcome {
        self.buckets.sort(self.name, keys);
        let gradients = &self.gradients[..keys.len() * self.dim];
        let rows = [RowGradients { table: TABLE, keys, buckets: &self.buckets, gradients }];
        let push = Push { batch: None, learning_rate: 0.0, rows: &rows, slices: &[], non_finite: NonFinite::Refuse };
        hosted.push(&hosted.check(&push)?, |_| PushOptions::default());
        Ok(())
    }
}
