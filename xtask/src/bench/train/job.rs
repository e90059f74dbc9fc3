//! The job: one parameter server and a number of workers, as processes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::bench::fleet::Fleet;
use crate::bench::process_cost::cpu_seconds;

/// Records of a batch.
pub(super) const BATCH: u32 = 512;
/// Values of an embedding.
pub(super) const DIM: usize = 8;
/// Hidden layers.
pub(super) const HIDDEN: &str = "64x32";

/// The model, as the worker's argument.
pub(super) fn model() -> String {
    format!("deepfm:dim={DIM},hidden={HIDDEN}")
}

/// The result of training.
pub(super) struct TrainingResult {
    /// Of all workers together, by their own reports.
    pub(super) records_per_second: f64,
    /// Microseconds of CPU for each record: of all workers, of the server, of the master.
    pub(super) cpu: [f64; 3],
    /// The last loss that a worker has reported.
    pub(super) loss: f64,
}

/// Trains on a file.
pub(super) async fn train(program: &Path, data: &Path, workers: usize, epochs: u32) -> Result<TrainingResult> {
    let fleet = Fleet::start(program, 1, None).await?;
    let (server, master) = (fleet.server_pids()[0], fleet.master_pid());
    let mut running = Vec::new();
    for number in 0..workers {
        let mut command = Command::new(program);
        command.args(["worker", "--master", fleet.master(), "--name", &format!("worker-{number}")]);
        command.args(["--model", &model(), "--batch", &BATCH.to_string(), "--epochs", &epochs.to_string()]);
        command.arg("--data").arg(data).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        running.push(Worker(command.spawn().context("cannot start a worker")?));
    }
    // One after the other: the output of a worker waits in its pipe.
    let summaries: Result<Vec<WorkerSummary>> = running.iter_mut().map(Worker::listen).collect();
    let summaries = summaries?;
    let records: u64 = summaries.iter().map(|one| one.records).sum();
    let longest = summaries.iter().map(|one| one.seconds).fold(0.0, f64::max);
    let micros = |seconds: f64| seconds * 1e6 / records as f64;
    let workers_cpu = summaries.iter().map(|one| one.cpu_seconds).sum();
    Ok(TrainingResult {
        records_per_second: records as f64 / longest,
        cpu: [micros(workers_cpu), micros(cpu_seconds(server)?), micros(cpu_seconds(master)?)],
        loss: summaries.iter().map(|one| one.loss).sum::<f64>() / summaries.len() as f64,
    })
}

/// A worker, ended with its guard.
struct Worker(Child);

/// The sum of a worker's progress lines.
struct WorkerSummary {
    records: u64,
    seconds: f64,
    loss: f64,
    cpu_seconds: f64,
}

impl Worker {
    /// Reads its output until it ends.
    fn listen(&mut self) -> Result<WorkerSummary> {
        let mut summary = WorkerSummary { records: 0, seconds: 0.0, loss: 0.0, cpu_seconds: 0.0 };
        let stdout = self.0.stdout.take().context("a worker says nothing")?;
        for line in BufReader::new(stdout).lines() {
            summary.take(&line?);
        }
        // It has closed its output and is not reaped yet.
        summary.cpu_seconds = cpu_seconds(self.0.id())?;
        let status = self.0.wait()?;
        ensure!(
            status.success() && summary.records > 0,
            "a worker ended with {status} after {} records",
            summary.records
        );
        Ok(summary)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl WorkerSummary {
    /// Parses `step 512, 262144 records, 131072 records/s, loss 0.4498, …`; ignores other lines.
    fn take(&mut self, line: &str) {
        let number = |before: &str| line.split(", ").find_map(|part| part.strip_suffix(before)?.parse::<f64>().ok());
        let loss = line.split(", ").find_map(|part| part.strip_prefix("loss ")?.parse().ok());
        if let (Some(records), Some(pace), Some(loss)) = (number(" records"), number(" records/s"), loss) {
            self.seconds += (records - self.records as f64) / pace;
            (self.records, self.loss) = (records as u64, loss);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn training_time_is_the_sum_of_the_reports() {
        let mut summary = WorkerSummary { records: 0, seconds: 0.0, loss: 0.0, cpu_seconds: 0.0 };
        for line in [
            "step 200, 100000 records, 50000 records/s, loss 0.5000, AUC 0.7878, accuracy 0.7956",
            "step 300, 150000 records, 25000 records/s, loss 0.4000, AUC 0.7878, accuracy 0.7956",
            "done: 300 steps, 150000 records accounted for, 0 parts applied before",
        ] {
            summary.take(line);
        }
        assert_eq!((summary.records, summary.seconds, summary.loss), (150_000, 4.0, 0.4));
    }
}
