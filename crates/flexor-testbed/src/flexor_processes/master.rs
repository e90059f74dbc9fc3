//! `flexor master` of one job: tests start it, kill it, restart it on the same state, and query it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use super::{
    api::{self, Decision, RunStatus},
    service::Service,
    two_networks::Namespace,
};
use crate::python::PythonEnv;

/// The address of a master that only this machine may reach.
const LOOPBACK: &str = "127.0.0.1:0";

/// The token of a master that others can reach.
const TOKEN: &str = "the-token-of-a-test";

/// The configuration of a master.
#[derive(Debug, Clone)]
pub struct MasterConfig {
    program: PathBuf,
    job: String,
    nodes: String,
    args: Vec<String>,
    network: Option<Namespace>,
}

impl MasterConfig {
    /// A master of the job `job` whose worlds have `nodes` (`MIN:MAX`); `program` is `flexor`.
    pub fn new(program: impl Into<PathBuf>, job: &str, nodes: &str) -> Self {
        let (job, nodes) = (job.to_owned(), nodes.to_owned());
        Self { program: program.into(), job, nodes, args: Vec::new(), network: None }
    }

    /// How many times the program may fail.
    pub fn max_restarts(mut self, restarts: u32) -> Self {
        self.args.extend(["--max-restarts".to_owned(), restarts.to_string()]);
        self
    }

    /// How many seconds a first world waits for more nodes than it needs.
    pub fn last_call(mut self, seconds: u32) -> Self {
        self.args.extend(["--last-call".to_owned(), seconds.to_string()]);
        self
    }

    /// Serves in this network, to every connected peer, and requires a token.
    pub fn network(mut self, network: &Namespace) -> Self {
        self.network = Some(network.clone());
        self
    }
}

/// A running master, or one that was killed and can be started again.
#[derive(Debug)]
pub struct Master {
    python: PythonEnv,
    config: MasterConfig,
    /// Journal and token.
    folder: TempDir,
    serves: MasterAddresses,
    service: Option<Service>,
    /// The logs of its earlier incarnations.
    past_log: String,
}

/// The line that a master prints when it serves.
#[derive(Debug, Clone, Deserialize)]
struct MasterAddresses {
    generation: u64,
    grpc: String,
    store: String,
    http: String,
}

impl Master {
    /// Starts a master with an empty journal.
    pub fn start(python: &PythonEnv, config: MasterConfig) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("make a folder for a master")?;
        let grpc = config.network.as_ref().map_or(LOOPBACK.to_owned(), |network| format!("{}:0", network.address()));
        let serves = MasterAddresses { generation: 0, grpc, store: LOOPBACK.into(), http: LOOPBACK.into() };
        let past_log = String::new();
        let mut master = Self { python: python.clone(), config, folder, serves, service: None, past_log };
        if let Some(file) = master.token_file() {
            fs::write(&file, TOKEN).with_context(|| format!("write {}", file.display()))?;
        }
        master.start_again()?;
        Ok(master)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(service) = self.service.take() {
            service.kill();
            self.past_log.push_str(&service.log());
        }
    }

    /// Starts it again where it was, on the same journal. One that runs is killed first.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.kill();
        let mut command = self.flexor(self.network());
        command.args(["master", "--job", &self.config.job, "--nnodes", &self.config.nodes.to_string()]);
        let MasterAddresses { grpc, store, http, .. } = &self.serves;
        command.args(["--grpc", grpc, "--store", store, "--http", http]).args(&self.config.args);
        command.arg("--state").arg(self.folder.path().join("state"));
        if let Some(file) = self.token_file() {
            command.arg("--token-file").arg(file);
        }
        let (service, serves) = Service::start(&self.python, &mut command)?;
        (self.service, self.serves) = (Some(service), serves);
        Ok(())
    }

    /// The name of its job.
    pub fn job(&self) -> &str {
        &self.config.job
    }

    /// The generation of its journal: how often a master has started on it.
    pub fn generation(&self) -> u64 {
        self.serves.generation
    }

    /// `HOST:PORT` of gRPC and `/api`.
    pub fn grpc(&self) -> &str {
        &self.serves.grpc
    }

    /// `HOST:PORT` of the TCPStore.
    pub fn store(&self) -> &str {
        &self.serves.store
    }

    /// Its process id.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.service.as_ref().context("the master was killed")?.pid()
    }

    /// The state of the job's run: `None` before the first node has joined.
    pub fn run_status(&self) -> anyhow::Result<Option<RunStatus>> {
        let runs = api::status(self.grpc(), self.token(), self.network())?;
        Ok(runs.into_iter().find(|run| run.run == self.config.job))
    }

    /// The decisions of this incarnation of the master, oldest first.
    pub fn decisions(&self) -> anyhow::Result<Vec<Decision>> {
        api::decisions(self.grpc(), self.token(), self.network())
    }

    /// Its log, earlier incarnations included.
    pub fn log(&self) -> String {
        self.past_log.clone() + &self.service.as_ref().map(Service::log).unwrap_or_default()
    }

    /// The environment for a torchrun that joins at `endpoint`, from `flexor env torchrun`.
    pub fn torchrun_variables(&self, endpoint: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let MasterConfig { program, job, nodes, .. } = &self.config;
        let args = ["env", "torchrun", "--nnodes", nodes, "--id", job, "--endpoint", endpoint, "-o", "json"];
        let printed =
            Command::new(program).args(args).output().with_context(|| format!("run {}", program.display()))?;
        ensure!(printed.status.success(), "flexor env torchrun: {}", String::from_utf8_lossy(&printed.stderr));
        serde_json::from_slice(&printed.stdout).context("read what flexor env torchrun printed")
    }

    /// The environment for a `flexor launch` that joins at `endpoint`: torchrun's, and the token where one is needed.
    pub fn launch_variables(&self, endpoint: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let mut variables = self.torchrun_variables(endpoint)?;
        if let Some(file) = self.token_file() {
            variables.insert(flexor_model::env::TOKEN_FILE.name.to_owned(), file.display().to_string());
        }
        Ok(variables)
    }

    /// `flexor`, to be run in this network.
    pub(super) fn flexor(&self, network: Option<&Namespace>) -> Command {
        let program: &Path = &self.config.program;
        network.map_or_else(|| Command::new(program), |network| network.command(program))
    }

    pub(super) fn python(&self) -> &PythonEnv {
        &self.python
    }

    pub(super) fn network(&self) -> Option<&Namespace> {
        self.config.network.as_ref()
    }

    /// The file with the token, where one is needed.
    pub(super) fn token_file(&self) -> Option<PathBuf> {
        self.network().map(|_| self.folder.path().join("token"))
    }

    fn token(&self) -> Option<&str> {
        self.network().map(|_| TOKEN)
    }
}
