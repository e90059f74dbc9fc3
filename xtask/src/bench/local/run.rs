//! One `flexor run` in its own folder, which ends with its guard.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

pub(super) struct Run {
    child: Child,
    flexor: PathBuf,
    folder: PathBuf,
    /// When it was started, since the Unix epoch.
    pub(super) begun: Duration,
}

/// A folder for a run and its outputs.
pub(super) fn folder() -> Result<TempDir> {
    tempfile::tempdir().context("cannot make a folder for a cluster")
}

impl Run {
    /// Runs a manifest, with more options.
    pub(super) fn start(flexor: &Path, folder: &Path, job: &Value, options: &[&str]) -> Result<Run> {
        fs::write(folder.join("job.json"), job.to_string())?;
        let log = File::create(folder.join("run.log"))?;
        let mut command = Command::new(flexor);
        command.args(["run", "job.json", "--state-dir", "home", "--ephemeral"]).args(options).current_dir(folder);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let begun = since_epoch()?;
        let child = command.spawn().context("cannot start flexor")?;
        Ok(Run { child, flexor: flexor.to_owned(), folder: folder.to_owned(), begun })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Runs a command against its cluster; returns its output.
    pub(super) fn verb(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.flexor);
        let output = command.args(words).args(["--state-dir", "home"]).current_dir(&self.folder).output()?;
        if !output.status.success() {
            bail!("{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until its cluster answers.
    pub(super) fn await_answer(&self, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        while let Err(error) = self.verb(&["get", "pods"]) {
            if Instant::now() > until {
                return Err(error.context(format!("its cluster did not answer within {limit:?}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits for its successful end; returns its duration in seconds.
    pub(super) fn finish(mut self, limit: Duration) -> Result<f64> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                let lasted = since_epoch()?.saturating_sub(self.begun).as_secs_f64();
                if !status.success() {
                    bail!("flexor run ended with {status}:\n{}", self.log());
                }
                return Ok(lasted);
            }
            if Instant::now() > until {
                bail!("flexor run did not end within {limit:?}:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until it has printed this.
    pub(super) fn await_line(&self, text: &str, limit: Duration) -> Result<()> {
        let until = Instant::now() + limit;
        while !self.log().contains(text) {
            if Instant::now() > until {
                bail!("flexor run did not print {text:?} within {limit:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Interrupts it once, and waits for its end. The seconds that this took.
    pub(super) fn interrupt(mut self, limit: Duration) -> Result<f64> {
        let begun = Instant::now();
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT)?;
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > limit {
                bail!("flexor run did not end within {limit:?} of a Ctrl-C");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("run.log")).unwrap_or_default()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Its pods end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn since_epoch() -> Result<Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")
}
