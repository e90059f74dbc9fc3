//! One job under `flexor run` for some time, and what its report says of its pace and its pods.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const END: Duration = Duration::from_secs(60);

/// A run that is over.
pub(super) struct MeasuredRun {
    report: Value,
}

/// A run that ends with this.
struct Running(Child);

impl MeasuredRun {
    /// Runs a manifest in a folder of its own for some time. The job has to last longer.
    pub(super) fn play(flexor: &Path, manifest: &str, time: Duration) -> Result<Self> {
        let folder = TempDir::new().context("cannot make a folder for a run")?;
        fs::write(folder.path().join("job.yaml"), manifest)?;
        let log = File::create(folder.path().join("run.log"))?;
        let mut command = Command::new(flexor);
        command.args(["run", "job.yaml", "--no-view", "--ephemeral", "--state-dir", "home", "--report", "report"]);
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut running = Running(command.spawn().context("cannot start flexor")?);
        std::thread::sleep(time);
        let printed = || fs::read_to_string(folder.path().join("run.log")).unwrap_or_default();
        ensure!(running.0.try_wait()?.is_none(), "flexor run has ended too soon:\n{}", printed());
        kill(Pid::from_raw(running.0.id().cast_signed()), Signal::SIGINT)?;
        let asked = Instant::now();
        while running.0.try_wait()?.is_none() {
            if asked.elapsed() > END {
                bail!("flexor run did not end within {END:?} of a Ctrl-C:\n{}", printed());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let report = folder.path().join("report/report.json");
        let text = fs::read_to_string(&report).with_context(|| format!("no report; it printed:\n{}", printed()))?;
        Ok(Self { report: serde_json::from_str(&text)? })
    }

    /// The batches per second at each sample, with its time in seconds.
    fn paces(&self) -> impl Iterator<Item = (f64, f64)> {
        let samples = self.report["jobs"][0]["training"].as_array().into_iter().flatten();
        samples.filter_map(|sample| Some((sample["at"].as_f64()?, sample["stepsPerSecond"].as_f64()?)))
    }

    /// The batches that are done at a time.
    fn steps_at(&self, at: f64) -> Option<(f64, f64)> {
        let samples = self.report["jobs"][0]["training"].as_array().into_iter().flatten();
        let mut counted = samples.filter_map(|sample| Some((sample["at"].as_f64()?, sample["step"].as_f64()?)));
        counted.rfind(|(when, _)| *when <= at)
    }

    /// The mean of the batches per second in a span of time.
    pub(super) fn pace(&self, from: f64, to: f64) -> Result<f64> {
        let spans = self.steps_at(from).zip(self.steps_at(to)).filter(|(first, last)| last.0 > first.0);
        let ((began, before), (ended, after)) = spans.context("no step was counted in that time")?;
        Ok((after - before) / (ended - began))
    }

    /// When the first batch was done.
    pub(super) fn first_step(&self) -> Result<f64> {
        self.paces().find(|(_, pace)| *pace > 0.0).map(|(at, _)| at).context("no step was counted")
    }

    /// When the batches per second were first so many.
    pub(super) fn reached(&self, pace: f64) -> Option<f64> {
        self.paces().find(|(_, of)| *of >= pace).map(|(at, _)| at)
    }

    /// When something first happened, by its reason.
    pub(super) fn first_event(&self, reason: &str) -> Option<f64> {
        self.events(reason).next().and_then(|event| event["at"].as_f64())
    }

    /// What happened for this reason.
    pub(super) fn events<'a>(&'a self, reason: &'a str) -> impl Iterator<Item = &'a Value> {
        let events = self.report["events"].as_array().into_iter().flatten();
        events.filter(move |event| event["reason"] == *reason)
    }

    /// The roles and the start of all pods.
    pub(super) fn pods(&self) -> impl Iterator<Item = (&str, f64)> {
        let pods = self.report["pods"].as_array().into_iter().flatten();
        pods.filter_map(|pod| Some((pod["role"].as_str()?, pod["startedAt"].as_f64()?)))
    }

    /// The length of the run.
    pub(super) fn seconds(&self) -> f64 {
        self.report["seconds"].as_f64().unwrap_or(0.0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its pods end with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
