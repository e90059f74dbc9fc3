//! One torchrun, or one `flexor launch` in its stead: its configuration, start, signals and log.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use nix::sys::signal::Signal;

use super::{
    events::{EventLog, ProbeEvent},
    node::{Node, send},
};
use crate::{flexor_processes::Namespace, keeper::wait_until, torch::Torch};

/// The probe, the observer of other programs, and their shared event writer.
const PROGRAMS: [(&str, &str); 3] = [
    (PROBE, include_str!("../../python/probe.py")),
    (OBSERVED, include_str!("../../python/observed.py")),
    ("probe_events.py", include_str!("../../python/probe_events.py")),
];
const PROBE: &str = "probe.py";
const OBSERVED: &str = "observed.py";

/// The configuration of a torchrun.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    name: String,
    launcher: Launcher,
    env: Vec<(OsString, OsString)>,
    program: Program,
    args: Vec<OsString>,
    linger: Duration,
    network: Option<Namespace>,
}

/// The launcher of the workers.
#[derive(Debug, Clone)]
enum Launcher {
    Torchrun,
    /// This program's `launch`.
    Flexor(PathBuf),
}

impl Launcher {
    /// The command in this network, up to the program that is to be launched.
    fn command(&self, torch: &Torch, network: Option<&Namespace>) -> Command {
        let start = |program: &Path| network.map_or_else(|| Command::new(program), |network| network.command(program));
        match self {
            Self::Torchrun => {
                let mut command = start(&torch.python());
                command.args(["-m", "torch.distributed.run"]);
                command
            }
            Self::Flexor(program) => {
                let mut command = start(program);
                command.arg("launch").env("PYTHON_EXEC", torch.python());
                command
            }
        }
    }
}

/// The program of the workers.
#[derive(Debug, Clone)]
enum Program {
    Probe,
    Observed(PathBuf),
    Script(PathBuf),
}

impl AgentConfig {
    /// A torchrun with one worker, the probe, which makes steps until it is ended.
    ///
    /// All agents of a test are on one host, so the configuration sets what torchrun derives from the host name: gloo
    /// uses the loopback interface.
    pub fn new(name: impl Into<String>) -> Self {
        let config = Self {
            name: name.into(),
            launcher: Launcher::Torchrun,
            env: Vec::new(),
            program: Program::Probe,
            args: vec![u32::MAX.to_string().into()],
            linger: Duration::ZERO,
            network: None,
        };
        config.env("GLOO_SOCKET_IFNAME", "lo").env("OMP_NUM_THREADS", "1")
    }

    /// Lets `flexor launch` start the workers instead of torchrun; `program` is `flexor`.
    pub fn flexor_launch(mut self, program: impl Into<PathBuf>) -> Self {
        self.launcher = Launcher::Flexor(program.into());
        self
    }

    /// Adds a variable to the environment of torchrun. Its options are variables too: `PET_` and the option's name.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Joins the job `test` of `nodes` (`MIN:MAX`) through the c10d rendezvous at `endpoint`, with torchrun's timers.
    pub fn rendezvous(self, endpoint: &str, nodes: &str) -> Self {
        self.env("PET_RDZV_BACKEND", "c10d")
            .env("PET_RDZV_ENDPOINT", endpoint)
            .env("PET_RDZV_ID", "test")
            .env("PET_NNODES", nodes)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs it in this network, where workers connect over the cable.
    pub fn network(mut self, network: &Namespace) -> Self {
        self.network = Some(network.clone());
        self.env("GLOO_SOCKET_IFNAME", network.interface()).env("PET_LOCAL_ADDR", network.address().to_string())
    }

    /// Lets the probe end after this many steps.
    pub fn steps(mut self, steps: u64) -> Self {
        self.args = vec![steps.to_string().into()];
        self
    }

    /// Runs a script instead of the probe. It writes no [`ProbeEvent`]s.
    pub fn script(mut self, path: impl Into<PathBuf>) -> Self {
        (self.program, self.args) = (Program::Script(path.into()), Vec::new());
        self
    }

    /// Runs an unchanged training script instead of the probe and writes an event for each step of its optimizer.
    pub fn observed(mut self, path: impl Into<PathBuf>) -> Self {
        (self.program, self.args) = (Program::Observed(path.into()), Vec::new());
        self
    }

    /// Adds arguments of the script.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Keeps the event writer alive for this long after its last step.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }
}

/// A running torchrun and its workers: one node of a job.
#[derive(Debug)]
pub struct Agent {
    name: String,
    node: Node,
    events: EventLog,
}

impl Agent {
    /// Starts a torchrun.
    pub fn start(torch: &Torch, config: AgentConfig) -> anyhow::Result<Self> {
        let folder = Node::make_folder()?;
        let events = EventLog::new(folder.path().join("events.jsonl"));
        let mut command = config.launcher.command(torch, config.network.as_ref());
        command.envs(config.env);
        for (name, text) in PROGRAMS {
            let script = folder.path().join(name);
            std::fs::write(&script, text).with_context(|| format!("write {}", script.display()))?;
        }
        let mut watched = |program: &str| {
            command.arg(folder.path().join(program)).arg(events.path()).arg(&config.name);
            command.arg(config.linger.as_secs_f64().to_string());
        };
        match &config.program {
            Program::Probe => watched(PROBE),
            Program::Observed(path) => {
                watched(OBSERVED);
                command.arg(path);
            }
            Program::Script(path) => {
                command.arg(path);
            }
        }
        command.args(&config.args);
        Ok(Self { name: config.name, node: Node::start(folder, torch, &command)?, events })
    }

    /// Its name, which is also in the probe's events.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The events of its workers so far.
    pub fn events(&self) -> Vec<ProbeEvent> {
        self.events.read()
    }

    /// Waits for the first event, past or future, for which `wanted` holds. Fails after the deadline and, at once, when
    /// torchrun has ended without it.
    pub fn await_event(
        &self,
        deadline: Duration,
        wanted: impl FnMut(&ProbeEvent) -> bool,
    ) -> anyhow::Result<ProbeEvent> {
        let ended = || self.exit_code().map(|code| format!("torchrun ended with {code}"));
        self.events.await_event(deadline, wanted, ended).map_err(|error| self.explain(error))
    }

    /// Waits until `wanted` holds for the log, and returns the log.
    pub fn await_log(&self, deadline: Duration, mut wanted: impl FnMut(&str) -> bool) -> anyhow::Result<String> {
        let mut log = String::new();
        let mut done = || {
            // In this order: the log then holds everything that torchrun printed before it ended.
            let ended = self.exit_code().is_some();
            log = self.log();
            Some(wanted(&log)).filter(|found| *found || ended)
        };
        let mut verdict = None;
        wait_until(deadline, || {
            verdict = done();
            verdict.is_some()
        });
        match verdict {
            Some(true) => Ok(log),
            Some(false) => Err(self.explain(anyhow!("torchrun ended with {:?}", self.exit_code()))),
            None => Err(self.explain(anyhow!("waited {deadline:?} in vain"))),
        }
    }

    /// Waits until torchrun has ended and gives its exit code, or the negative of the signal that ended it.
    pub fn await_exit(&self, deadline: Duration) -> anyhow::Result<i32> {
        wait_until(deadline, || self.exit_code().is_some());
        self.exit_code().ok_or_else(|| self.explain(anyhow!("waited {deadline:?} for torchrun's end")))
    }

    /// How torchrun ended, if it has.
    pub fn exit_code(&self) -> Option<i32> {
        self.node.exit_code()
    }

    /// The output of torchrun and its workers.
    pub fn log(&self) -> String {
        self.node.log()
    }

    /// The processes of its workers.
    pub fn worker_pids(&self) -> Vec<u32> {
        let agent = self.node.command_pid();
        self.node.pids().into_iter().filter(|pid| Some(*pid) != agent && !is_keeper(*pid)).collect()
    }

    /// Waits until none of its workers is left.
    pub fn await_no_workers(&self, deadline: Duration) -> anyhow::Result<()> {
        if !wait_until(deadline, || self.worker_pids().is_empty()) {
            return Err(self.explain(anyhow!("waited {deadline:?} for the end of its workers")));
        }
        Ok(())
    }

    /// Loses the node: torchrun and its workers are killed, and no process is left to report it.
    pub fn kill_node(&self) {
        self.node.kill();
    }

    /// A node that hangs: torchrun and its workers stop where they are, connections stay open.
    pub fn stop_node(&self) {
        self.node.signal_all(Signal::SIGSTOP);
    }

    /// Resumes the node after [`Agent::stop_node`].
    pub fn continue_node(&self) {
        self.node.signal_all(Signal::SIGCONT);
    }

    /// Asks torchrun to end, as a cluster does before it deletes a pod.
    pub fn terminate(&self) -> anyhow::Result<()> {
        match self.node.command_pid() {
            Some(pid) => send(pid, Signal::SIGTERM),
            None => bail!("agent {}: there is no torchrun to terminate", self.name),
        }
        Ok(())
    }

    /// A program error: the workers are killed and torchrun is not.
    pub fn kill_workers(&self) -> anyhow::Result<()> {
        let workers = self.worker_pids();
        if workers.is_empty() {
            bail!("agent {}: there is no worker to kill", self.name);
        }
        workers.into_iter().for_each(|pid| send(pid, Signal::SIGKILL));
        Ok(())
    }

    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        anyhow!("agent {}: {error:#}; its log ends with\n{}", self.name, self.node.log_tail())
    }
}

/// A port of loopback that was free a moment ago, for programs that cannot report a port chosen by the kernel.
pub fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr().context("find a free port")?.port())
}

/// Whether a process is the keeper of `flexor launch`, which is no worker.
fn is_keeper(pid: u32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(b"end-what-is-left")
}
