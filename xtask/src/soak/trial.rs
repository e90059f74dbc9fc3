//! One job under one seed: runs it in its own folder with a deadline, checks it, and keeps the folder of a failure.

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flexor_testbed::Torch;
use serde_json::Value;

use super::logs::KeptLogs;
use super::program::Program;

/// How long a job may take.
const DEADLINE: Duration = Duration::from_secs(240);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) struct Trial<'a> {
    pub(super) seed: u64,
    pub(super) program: Program,
    pub(super) flexor: &'a Path,
    pub(super) root: &'a Path,
    pub(super) torch: Option<&'a Torch>,
}

/// The outcome of a trial.
pub(super) struct Outcome {
    name: String,
    took: Duration,
    pub(super) faults: usize,
    wrong: Option<String>,
    /// The folder of a job that did not do well.
    pub(super) kept: Option<PathBuf>,
}

impl Trial<'_> {
    /// Runs the job in a folder below `kept`, which is removed after a success.
    pub(super) fn run(&self, kept: &Path) -> Result<Outcome> {
        let name = format!("{}-{}", self.program, self.seed);
        let folder = kept.join(&name);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        symlink(self.root.join("examples"), folder.join("examples"))?;
        fs::write(folder.join("job.yaml"), self.program.manifest(&self.root.join("examples"))?)?;
        self.program.write_script(self.seed, &folder)?;
        let began = Instant::now();
        let wrong = self.end_well(&folder).err().map(|error| format!("{error:#}"));
        let took = began.elapsed();
        let printed = fs::read_to_string(folder.join("run.out")).unwrap_or_default();
        let faults =
            printed.lines().filter(|line| line.contains("FaultInjected: ") && !line.contains(": missed, ")).count();
        if wrong.is_none() {
            fs::remove_dir_all(&folder)?;
        }
        let kept = wrong.is_some().then_some(folder);
        Ok(Outcome { name, took, faults, wrong, kept })
    }

    /// Runs the job; the error names the problem with its end.
    fn end_well(&self, folder: &Path) -> Result<()> {
        let logs = KeptLogs::of(&folder.join("home"), folder.join("logs"));
        let mut run = RunningJob(self.command(folder)?.spawn().context("cannot start flexor")?);
        let ended = run.wait_for(DEADLINE)?;
        drop(logs);
        ensure!(ended.success(), "flexor run ended with {ended}: {}", last_line(folder));
        self.program.check(folder, self.torch)?;
        ensure_books_are_right(folder)?;
        for left in ["jobs", "pods", "status", "masters"] {
            let count = fs::read_dir(folder.join("home").join(left))?.count();
            ensure!(count == 0, "{count} files are left in home/{left}");
        }
        Ok(())
    }

    fn command(&self, folder: &Path) -> Result<Command> {
        let chaos = self.program.chaos(self.seed);
        let mut command = Command::new(self.flexor);
        command.args([
            "run",
            "job.yaml",
            "--state-dir",
            "home",
            "--ephemeral",
            "--report",
            "report",
            "--chaos",
            &chaos,
        ]);
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(File::create(folder.join("run.out"))?).stderr(File::create(folder.join("run.err"))?);
        if let Some(bin) = self.torch.and_then(|torch| torch.python().parent().map(Path::to_owned)) {
            command.env("PATH", format!("{}:{}", bin.display(), env::var("PATH").unwrap_or_default()));
        }
        Ok(command)
    }
}

/// Checks that all records are accounted for, where the report has any.
fn ensure_books_are_right(folder: &Path) -> Result<()> {
    let report: Value = serde_json::from_slice(&fs::read(folder.join("report/report.json")).context("no report")?)?;
    for job in report["jobs"].as_array().context("the report has no jobs")? {
        let records = &job["records"];
        let sound = records.is_null() || (records["lost"] == 0 && records["expected"] == records["accounted"]);
        ensure!(sound, "the ledger does not add up: {records}");
    }
    Ok(())
}

/// The command that replays a kept folder.
pub(super) fn again(folder: &Path, flexor: &Path) -> String {
    let run = "run job.yaml --state-dir home --ephemeral --chaos @report/chaos.json";
    format!("cd {} && rm -rf out *.pt *.csv *.truth.json home && {} {run}", folder.display(), flexor.display())
}

fn last_line(folder: &Path) -> String {
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let last = |text: String| text.lines().last().unwrap_or_default().to_owned();
    format!("{} {}", last(text("run.out")), last(text("run.err")))
}

/// `flexor run`; killed when dropped, and its pods end with it.
struct RunningJob(Child);

impl RunningJob {
    fn wait_for(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let until = Instant::now() + deadline;
        while Instant::now() < until {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            thread::sleep(LOOK_EVERY);
        }
        bail!("it has not ended after {} s", deadline.as_secs())
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.wrong.is_none() { "well" } else { "FAILED" };
        write!(f, "{:<18} {verdict:<6} {:>5.1} s, {} faults", self.name, self.took.as_secs_f64(), self.faults)?;
        match &self.wrong {
            Some(wrong) => write!(f, ": {wrong}"),
            None => Ok(()),
        }
    }
}
