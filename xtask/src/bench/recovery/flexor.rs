//! `flexor master` and `flexor sidecar` as children: started, asked where they listen, ended.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// The job's name, which is torchrun's `--rdzv-id` too.
pub(super) const JOB: &str = "recovery";

/// A program of ours that ends with its guard.
#[derive(Debug)]
struct Service {
    child: Child,
}

impl Service {
    /// Starts it and reads the one line that it prints when it serves.
    fn start<T: DeserializeOwned>(program: &Path, args: &[&str]) -> Result<(Service, T)> {
        let mut child = Command::new(program)
            .args(args)
            .args(["-o", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = child.stdout.take().context("the output was asked for")?;
        let service = Service { child };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.is_empty() {
            bail!("flexor {} ended before it served; run it by hand to see why", args.join(" "));
        }
        let serving = serde_json::from_str(&line).with_context(|| format!("flexor said {}", line.trim()))?;
        Ok((service, serving))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// A running master of one job.
#[derive(Debug)]
pub(super) struct Master {
    program: PathBuf,
    state: TempDir,
    serves: MasterServes,
    service: Option<Service>,
}

/// What a master prints when it serves.
#[derive(Debug, Clone, Deserialize)]
struct MasterServes {
    grpc: String,
    store: String,
    http: String,
}

impl Master {
    pub(super) fn start(program: &Path) -> Result<Master> {
        let state = tempfile::tempdir().context("cannot make a folder for the journal")?;
        let any = || "127.0.0.1:0".to_owned();
        let serves = MasterServes { grpc: any(), store: any(), http: any() };
        let mut master = Master { program: program.to_owned(), state, serves, service: None };
        master.serve()?;
        Ok(master)
    }

    /// Kills it and starts it again at the same place after this long.
    pub(super) fn interrupt(&mut self, pause: Duration) -> Result<()> {
        self.service = None;
        thread::sleep(pause);
        self.serve()
    }

    fn serve(&mut self) -> Result<()> {
        let MasterServes { grpc, store, http } = &self.serves;
        let places = ["--grpc", grpc, "--store", store, "--http", http];
        let state = self.state.path().to_str().context("the name of the temporary folder is text")?;
        let job = ["master", "--job", JOB, "--world", "static:2:3", "--state", state];
        let (service, serves) = Service::start(&self.program, &[job.as_slice(), &places].concat())?;
        (self.service, self.serves) = (Some(service), serves);
        Ok(())
    }
}

/// The sidecar of one node.
#[derive(Debug)]
pub(super) struct Sidecar {
    listen: String,
    service: Service,
}

#[derive(Deserialize)]
struct SidecarServes {
    listen: String,
}

impl Sidecar {
    pub(super) fn start(master: &Master, pod: &str) -> Result<Sidecar> {
        let args = ["sidecar", "--listen", "127.0.0.1:0", "--upstream", &master.serves.grpc, "--pod", pod];
        let (service, serves) = Service::start::<SidecarServes>(&master.program, &args)?;
        Ok(Sidecar { listen: serves.listen, service })
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.listen
    }

    /// Lets it hang where it is; its connections stay open.
    pub(super) fn stop(&self) -> Result<()> {
        let pid = i32::try_from(self.service.child.id()).context("a process id")?;
        kill(Pid::from_raw(pid), Signal::SIGSTOP).context("cannot stop a sidecar")
    }
}
