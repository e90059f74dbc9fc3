//! `flexor master` as the measured process: it has a journal, logs to a file, and ends with its guard.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;

/// The job's name, which is also torchrun's `--rdzv-id`.
pub(super) const JOB: &str = "race";

/// A running master.
#[derive(Debug)]
pub(super) struct OurMaster {
    child: Child,
    serves: MasterAddresses,
    /// Journal, log and faults.
    folder: TempDir,
}

#[derive(Debug, Deserialize)]
struct MasterAddresses {
    grpc: String,
    store: String,
}

/// How good the disk of a master is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    /// As the machine has it.
    AsItIs,
    /// Every fsync takes this much longer.
    Slow {
        /// In milliseconds.
        fsync_ms: u32,
    },
}

impl OurMaster {
    /// Starts a master of a job that needs exactly this many nodes.
    pub(super) fn start(program: &Path, nodes: usize, disk: Disk) -> Result<OurMaster> {
        OurMaster::start_with(program, nodes, disk, &[])
    }

    /// The same with more arguments.
    pub(super) fn start_with(program: &Path, nodes: usize, disk: Disk, more: &[&OsStr]) -> Result<OurMaster> {
        let folder = tempfile::tempdir().context("cannot make a folder for the journal")?;
        let log = File::create(folder.path().join("log")).context("cannot create the log of the master")?;
        let mut command = Command::new(program);
        command.args(["master", "--job", JOB, "--nnodes", &format!("{nodes}")]);
        command.args(["--grpc", "127.0.0.1:0", "--store", "127.0.0.1:0", "--http", "127.0.0.1:0", "-o", "json"]);
        command.arg("--state").arg(folder.path().join("state")).args(more);
        if let Disk::Slow { fsync_ms } = disk {
            let faults = folder.path().join("faults.json");
            fs::write(&faults, format!("{{\"fsync_delay_ms\": {fsync_ms}}}"))?;
            command.env(flexor_model::env::FAULTS.name, faults);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        match serde_json::from_str(&line) {
            Ok(serves) => Ok(OurMaster { child, serves, folder }),
            Err(_) => {
                child.kill().and_then(|()| child.wait())?;
                let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
                bail!("flexor master said {line:?} instead of where it serves; its log: {}", log.trim())
            }
        }
    }

    /// `HOST:PORT` of the native API.
    pub(super) fn grpc(&self) -> &str {
        &self.serves.grpc
    }

    /// `HOST:PORT` of the TCPStore.
    pub(super) fn store(&self) -> &str {
        &self.serves.store
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How much it has logged.
    pub(super) fn log_bytes(&self) -> Result<u64> {
        Ok(fs::metadata(self.folder.path().join("log"))?.len())
    }
}

impl Drop for OurMaster {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
