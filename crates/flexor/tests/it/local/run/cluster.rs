//! A test folder with a laptop cluster of its own, and the `flexor run` processes in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use flexor_agent::processes::kill_orphans_of;
use flexor_local::pods::status::{ContainerState, PodPhase, PodStatus};
use flexor_local::proc;
use flexor_local::state_dir::StateDir;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::super::faults::deadline::{eventually, eventually_or_explain};
use super::super::faults::process::server;
use super::super::launch::folder::Folder;
use super::super::launch::launcher::Launcher;
use crate::program::{ProgramOutput, root};

/// The folder. All processes of its cluster end with it, by their ids; create it before the processes that use it.
pub struct Workspace {
    pub folder: Folder,
}

/// A pod, read from its files.
#[derive(Debug, Clone)]
pub struct LocalPod {
    pub name: String,
    pub status: PodStatus,
    main: String,
}

impl Workspace {
    /// A folder in which the examples are where users find them.
    pub fn new() -> Self {
        let folder = Folder::new();
        symlink(root().join("examples"), folder.path().join("examples")).unwrap();
        Self { folder }
    }

    /// Writes a manifest; its name.
    pub fn manifest(&self, manifest: &Value) -> String {
        let name = format!("{}.json", manifest["metadata"]["name"].as_str().unwrap());
        fs::write(self.folder.path().join(&name), manifest.to_string()).unwrap();
        name
    }

    /// Starts `flexor run` with these arguments; its pods end with it.
    pub fn run(&self, args: &[&str]) -> Launcher {
        Launcher::start(self.command(args).arg("--ephemeral"))
    }

    /// Starts `flexor run` with these arguments; its pods outlive it.
    pub fn run_for_good(&self, args: &[&str]) -> Launcher {
        Launcher::start(&mut self.command(args))
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = server(&["run", "--state-dir", "home"]);
        command.args(args).current_dir(self.folder.path());
        command
    }

    /// The output of a command, which must succeed.
    pub fn says(&self, words: &[&str]) -> String {
        self.asks(words).unwrap_or_else(|errors| panic!("{words:?}: {errors}"))
    }

    /// The output of a command, or its errors.
    pub fn asks(&self, words: &[&str]) -> Result<String, String> {
        let ran: ProgramOutput =
            server(words).args(["--state-dir", "home"]).current_dir(self.folder.path()).output().unwrap().into();
        if ran.code == 0 { Ok(ran.stdout) } else { Err(ran.stderr) }
    }

    /// The cluster.
    pub fn state_dir(&self) -> StateDir {
        StateDir::at(self.folder.path().join("home"))
    }

    /// The token of a job in the default namespace; empty if there is no such job.
    pub fn token(&self, job: &str) -> String {
        fs::read_to_string(self.state_dir().token("default", job)).unwrap_or_default().trim().to_owned()
    }

    /// All pods that have started.
    pub fn pods(&self) -> Vec<LocalPod> {
        let entries = fs::read_dir(self.state_dir().pods()).into_iter().flatten();
        let uids = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut pods: Vec<LocalPod> = uids.filter_map(|uid| self.pod(&uid)).collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods
    }

    fn pod(&self, uid: &str) -> Option<LocalPod> {
        let folder = self.state_dir().pod(uid);
        // It may be removed between two reads.
        let meta: Value = serde_json::from_slice(&fs::read(folder.path().join("meta.json")).ok()?).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (name, main) = (text(&meta["desired"]["name"])?, text(&meta["main"])?);
        Some(LocalPod { name, status: folder.status().ok()??, main })
    }

    /// A pod of this name, once it runs.
    pub fn await_running(&self, name: &str) -> LocalPod {
        let runs =
            |pod: &LocalPod| pod.name == name && pod.status.phase == PodPhase::Running && pod.main_id().is_some();
        let look = || self.pods().into_iter().find(runs);
        eventually_or_explain(&format!("{name} to run"), look, || format!("{:?}", self.pods()))
    }

    /// The output of the main container of a pod.
    pub fn log(&self, pod: &LocalPod) -> String {
        fs::read_to_string(self.state_dir().pod(&pod.status.uid).log(&pod.main)).unwrap_or_default()
    }

    /// Checks that every process of the cluster's pods has ended and that their folders are removed.
    pub fn assert_nothing_is_left_of(&self, pods: &[LocalPod]) {
        for pod in pods {
            assert!(!proc::is_alive(pod.status.supervisor), "the supervisor of {} is alive", pod.name);
            let main = pod.main_id().map(|id| id.as_raw().to_string());
            main.iter().for_each(|main| super::super::launch::launcher::await_gone(main));
        }
        let state_dir = self.state_dir();
        for folder in [
            state_dir.jobs(),
            state_dir.pods(),
            state_dir.status(),
            state_dir.path().join("masters"),
            state_dir.path().join("tokens"),
        ] {
            let left: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }

    /// Waits until the workers have written this many lines.
    pub fn await_records(&self, count: usize) {
        let look = || Some(self.records()).filter(|records| *records >= count);
        eventually(&format!("{count} records"), look);
    }

    fn records(&self) -> usize {
        let files = fs::read_dir(self.folder.path().join("out")).into_iter().flatten();
        files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok()).map(|text| text.lines().count()).sum()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        for pod in self.pods() {
            if proc::is_alive(pod.status.supervisor) {
                let _ = kill(pod.supervisor(), Signal::SIGKILL);
                kill_orphans_of(&[pod.supervisor().as_raw().unsigned_abs()]);
            }
        }
    }
}

impl LocalPod {
    pub fn supervisor(&self) -> Pid {
        Pid::from_raw(self.status.supervisor.0)
    }

    /// The process of its main container, while that runs.
    pub fn main_id(&self) -> Option<Pid> {
        self.id_of(&self.main)
    }

    /// The process of a container, while that runs.
    pub fn id_of(&self, container: &str) -> Option<Pid> {
        let found = self.status.containers.iter().find(|status| status.name == container)?;
        match found.state {
            ContainerState::Running { pid, .. } => Some(Pid::from_raw(pid.cast_signed())),
            ContainerState::Waiting(_) | ContainerState::Terminated { .. } => None,
        }
    }
}

/// A job whose workers run a script in a shell.
pub fn job_of(name: &str, replicas: u32, script: &str) -> Value {
    job_with(
        name,
        replicas,
        &json!({ "name": "elasticjob-worker", "image": "any:image", "command": ["sh", "-c", script] }),
    )
}

/// A job whose workers run a container.
pub fn job_with(name: &str, replicas: u32, container: &Value) -> Value {
    let template = json!({ "spec": { "containers": [container] } });
    json!({
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": { "name": name },
        "spec": {
            "minReplicas": 1,
            "maxReplicas": 4,
            "replicaSpecs": { "Worker": { "replicas": replicas, "restartPolicy": "ExitCode", "template": template } },
        },
    })
}
