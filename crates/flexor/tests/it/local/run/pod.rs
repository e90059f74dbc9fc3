//! Tests of `flexor pod`: one pod under its supervisor, driven through its folder as the cluster does.

mod failures;
mod full_disk;
mod logs;
mod memory;
mod order;
mod restarts;
mod sockets;
mod termination;

use std::io::{self, PipeWriter};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use flexor_local::limits::{self, LimitsMode};
use flexor_local::pods::folder::PodFolder;
use flexor_local::pods::plan::{ContainerPlan, PodPlan, RestartPolicy};
use flexor_local::pods::status::{ContainerState, PodPhase, PodStatus};
use flexor_local::state_dir::StateDir;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::faults::deadline::{eventually, eventually_or_explain};
use super::super::faults::process::inside;
use super::super::launch::folder::Folder;
use crate::program::flexor;

const UID: &str = "the-pod";

/// A pod that is thought out. Its containers run in its folder.
struct PodBuilder {
    folder: Folder,
    plan: PodPlan,
    sockets: Vec<TcpListener>,
    limits: LimitsMode,
    /// A folder of the cluster or of the pod is a separate disk of this size, which only the supervisor sees.
    disk: Option<(PathBuf, &'static str)>,
}

/// A running or finished pod. Dropping it kills its supervisor and all its programs.
struct Pod {
    work: Folder,
    supervisor: Child,
    owner: Option<PipeWriter>,
}

/// How a container ended.
#[derive(Debug, PartialEq, Eq)]
struct ContainerEnd {
    code: i32,
    reason: String,
    message: Option<String>,
}

/// An empty pod with a grace period of a minute.
fn pod() -> PodBuilder {
    let plan = PodPlan {
        name: "a-pod".to_owned(),
        uid: UID.to_owned(),
        address: Ipv4Addr::new(127, 100, 100, 100),
        init: Vec::new(),
        containers: Vec::new(),
        restart: RestartPolicy::Never,
        grace: Duration::from_secs(60),
    };
    PodBuilder { folder: Folder::new(), plan, sockets: Vec::new(), limits: LimitsMode::Best, disk: None }
}

impl PodBuilder {
    /// A container that runs a script before the others.
    fn init(mut self, name: &str, script: &str) -> Self {
        self.plan.init.push(self.script(name, script));
        self
    }

    /// A container that runs a script beside the others.
    fn sidecar(mut self, name: &str, script: &str) -> Self {
        self.plan.init.push(ContainerPlan { sidecar: true, ..self.script(name, script) });
        self
    }

    /// A container that runs a script.
    fn main(self, name: &str, script: &str) -> Self {
        self.main_but(name, script, |_| {})
    }

    /// A container that runs a script, with further changes.
    fn main_but(mut self, name: &str, script: &str, change: impl FnOnce(&mut ContainerPlan)) -> Self {
        let mut container = self.script(name, script);
        change(&mut container);
        self.plan.containers.push(container);
        self
    }

    fn restart(mut self, policy: RestartPolicy) -> Self {
        self.plan.restart = policy;
        self
    }

    fn grace(mut self, milliseconds: u64) -> Self {
        self.plan.grace = Duration::from_millis(milliseconds);
        self
    }

    /// How memory limits are kept.
    fn limits(mut self, wanted: LimitsMode) -> Self {
        self.limits = wanted;
        self
    }

    /// Puts the logs on a disk of this size, which needs root.
    fn log_disk(mut self, size: &'static str) -> Self {
        self.disk = Some((of(&self.folder).path().join("logs"), size));
        self
    }

    /// Puts the statuses on a disk of this size, which needs root.
    fn status_disk(mut self, size: &'static str) -> Self {
        self.disk = Some((state_dir(&self.folder).status(), size));
        self
    }

    /// A socket for the first container that has none.
    fn socket(mut self, socket: TcpListener) -> Self {
        self.sockets.push(socket);
        self
    }

    fn script(&self, name: &str, script: &str) -> ContainerPlan {
        let error_file = of(&self.folder).error_file(name).display().to_string();
        let path = std::env::var("PATH").unwrap();
        ContainerPlan {
            name: name.to_owned(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            env: [("PATH".to_owned(), path), ("TORCHELASTIC_ERROR_FILE".to_owned(), error_file)].into(),
            folder: self.folder.path().to_owned(),
            memory: None,
            sidecar: false,
            sockets: 0,
            mounts: Vec::new(),
        }
    }

    /// Starts it for good.
    fn start(self) -> Pod {
        self.start_with(None)
    }

    /// Starts it with an owner; it ends with the owner.
    fn start_owned(self) -> Pod {
        let (theirs, ours) = io::pipe().unwrap();
        let mut pod = self.start_with(Some(theirs.into()));
        pod.owner = Some(ours);
        pod
    }

    fn start_with(self, owner: Option<Stdio>) -> Pod {
        let state_dir = state_dir(&self.folder);
        // The cluster makes its folders and detects the limits.
        drop(state_dir.lock().unwrap());
        limits::begin(&state_dir, &limits::detect(self.limits, state_dir.path())).unwrap();
        of(&self.folder).create(&self.plan).unwrap();
        let mut command = flexor(&["pod"]);
        command.arg(state_dir.path()).arg(UID).stderr(Stdio::inherit());
        command.env("LISTEN_FDS", self.sockets.len().to_string()).env_remove("LISTEN_PID");
        if let Some(owner) = owner {
            command.arg("--with-owner").stdin(owner);
        }
        if let Some((folder, size)) = self.disk {
            let mut shell = Command::new("unshare");
            shell.args(["--mount", "--propagation", "private", "sh"]);
            let script = format!(r#"mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@""#);
            command = inside(shell, &script, &folder, &command);
        }
        Pod { work: self.folder, supervisor: spawn(command, self.sockets), owner: None }
    }
}

fn spawn(mut command: Command, sockets: Vec<TcpListener>) -> Child {
    let mappings = (3..).zip(sockets).map(|(child_fd, socket)| FdMapping { parent_fd: socket.into(), child_fd });
    command.fd_mappings(mappings.collect()).unwrap();
    command.spawn().unwrap()
}

fn state_dir(folder: &Folder) -> StateDir {
    StateDir::at(folder.path().join("home"))
}

fn of(folder: &Folder) -> PodFolder {
    state_dir(folder).pod(UID)
}

impl Pod {
    fn folder(&self) -> PodFolder {
        of(&self.work)
    }

    /// The status that its supervisor has written.
    fn status(&self) -> Option<PodStatus> {
        self.folder().status().unwrap()
    }

    /// Waits for this phase.
    fn await_phase(&self, phase: PodPhase) -> PodStatus {
        let look = || self.status().filter(|status| status.phase == phase);
        eventually_or_explain(&format!("the phase {phase:?}"), look, || format!("{:?}", self.status()))
    }

    /// Waits for the successful end of its supervisor; returns the last status.
    fn wait(&mut self) -> PodStatus {
        let exit = eventually("the end of a pod's supervisor", || self.supervisor.try_wait().unwrap());
        assert!(exit.success(), "{exit}");
        self.status().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.supervisor.id().cast_signed()), signal).unwrap();
    }

    fn log(&self, container: &str) -> String {
        std::fs::read_to_string(self.folder().log(container)).unwrap_or_default()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // The supervisor ends first, then the processes that it can no longer end.
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
        flexor_agent::processes::kill_orphans_of(&[self.supervisor.id()]);
        limits::forget_pod(&state_dir(&self.work), UID);
    }
}

/// The state of a container.
fn state<'a>(status: &'a PodStatus, container: &str) -> &'a ContainerState {
    &status.containers.iter().find(|known| known.name == container).unwrap().state
}

/// How often a container was started again.
fn restarts(status: &PodStatus, container: &str) -> u32 {
    status.containers.iter().find(|known| known.name == container).unwrap().restarts
}

/// How a container ended.
fn end(status: &PodStatus, container: &str) -> ContainerEnd {
    match state(status, container) {
        ContainerState::Terminated { exit_code, reason, message, .. } => {
            ContainerEnd { code: *exit_code, reason: reason.clone(), message: message.clone() }
        }
        other => panic!("{container} has not ended: {other:?}"),
    }
}

/// How a container ended, in short.
fn how(status: &PodStatus, container: &str) -> (i32, String) {
    let end = end(status, container);
    (end.code, end.reason)
}
