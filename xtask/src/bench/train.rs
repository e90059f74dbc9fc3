//! Trains a DeepFM on the quickstart's click log through a parameter server, against one PyTorch process with a local
//! model, and breaks down the time of a worker.
//!
//! File, shapes, optimizer (Adagrad) and batch size are the same. PyTorch has one thread ([`torch_peer`]), which also
//! reads the file, as our worker does; its time with all batches in memory is shown beside it. Ours is a master, a
//! server and one or two workers ([`job`]), which share the machine's cores. [`phases`] breaks down a worker's loop.

mod job;
mod phases;
mod torch_peer;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flexor_testbed::Torch;
use tokio::runtime::Runtime;

use self::job::TrainingResult;
use self::phases::PHASES;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

/// More repeats would take longer and show nothing new.
const MOST_REPEATS: u32 = 3;
/// As in the quickstart, and how often our workers go through them: two of them would be done too soon.
const RECORDS: u32 = 600_000;
const EPOCHS: u32 = 2;
/// How many workers there are, beside one server.
const WORKERS: [usize; 2] = [1, 2];

const READING: &str = "PyTorch, reading too";
const IN_MEMORY: &str = "PyTorch, batches in memory";

pub(super) fn run(repeats: u32) -> Result<Vec<Row>> {
    let program = compile::flexor(&project_root()?, "release")?;
    let torch = Torch::ensure()?;
    let runtime = Runtime::new().context("cannot start tokio")?;
    let folder = tempfile::tempdir().context("cannot make a folder for the data")?;
    let data = make_data(&program, folder.path())?;
    let mut ours: [Vec<TrainingResult>; WORKERS.len()] = Default::default();
    let (mut peer, mut spent) = (Vec::new(), Vec::new());
    for _ in 0..repeats.min(MOST_REPEATS) {
        for (workers, ours) in WORKERS.into_iter().zip(&mut ours) {
            let one = runtime.block_on(job::train(&program, &data, workers, EPOCHS))?;
            eprintln!("{workers} workers: {:.0} records/s, loss {:.4}", one.records_per_second, one.loss);
            ours.push(one);
        }
        let one = torch_peer::train(&torch, &data)?;
        let (reading, in_memory) = (&one.reading, &one.in_memory);
        eprintln!("{READING}: {:.0} records/s, loss {:.4}", reading.records_per_second, reading.loss);
        eprintln!("{IN_MEMORY}: {:.0} records/s, loss {:.4}", in_memory.records_per_second, in_memory.loss);
        peer.push(one);
        spent.push(runtime.block_on(phases::measure(&program, &data))?);
    }
    let mut rows = Vec::new();
    let reading: Vec<f64> = peer.iter().map(|one| one.reading.records_per_second).collect();
    let in_memory: Vec<f64> = peer.iter().map(|one| one.in_memory.records_per_second).collect();
    let reading_cpu: Vec<f64> = peer.iter().map(|one| one.reading.cpu_us_per_record).collect();
    for (workers, ours) in WORKERS.into_iter().zip(&ours) {
        let pace: Vec<f64> = ours.iter().map(|one| one.records_per_second).collect();
        let metric = |what: &str| format!("DeepFM, 1 server, {workers} worker{}: {what}", plural(workers));
        let records_metric = metric("records");
        rows.push(Row::rate(&records_metric, "records/s", &pace, READING, &reading, 0.0)?.for_information());
        rows.push(Row::rate(&records_metric, "records/s", &pace, IN_MEMORY, &in_memory, 0.0)?.for_information());
        let all: Vec<f64> = ours.iter().map(|one| one.cpu.iter().sum()).collect();
        rows.push(Row::cost(&metric("CPU for a record"), "us", &all, READING, &reading_cpu, 0.0)?.for_information());
        for (process, name) in ["workers", "server", "master"].into_iter().enumerate() {
            let of: Vec<f64> = ours.iter().map(|one| one.cpu[process]).collect();
            let cpu = metric(&format!("CPU for a record, {name}"));
            rows.push(Row::within(&cpu, "us", &of, f64::INFINITY)?.for_information());
        }
    }
    for (phase, name) in PHASES.into_iter().enumerate() {
        let of: Vec<f64> = spent.iter().map(|one| one[phase]).collect();
        let metric = format!("a batch of {} of one worker, nothing overlapped: {name}", job::BATCH);
        rows.push(Row::within(&metric, "ms", &of, f64::INFINITY)?.for_information());
    }
    Ok(rows)
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The quickstart's data.
fn make_data(program: &Path, folder: &Path) -> Result<PathBuf> {
    let data = folder.join("clicks.csv");
    let mut command = Command::new(program);
    command.args(["data", "gen", "clicks", "--records", &RECORDS.to_string(), "--out"]).arg(&data);
    let status = command.stdout(Stdio::null()).status().context("cannot start flexor data gen")?;
    ensure!(status.success(), "flexor data gen ended with {status}");
    Ok(data)
}
