//! A test folder with a laptop cluster that may run in the background.

use std::process::Command;

use flexor_local::proc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::super::faults::deadline::eventually_or_explain;
use super::super::faults::process::server;
use super::super::run::cluster::Workspace;
use crate::program::ProgramOutput;

/// The folder. Whatever was up in it is ended when this is dropped.
pub struct BackgroundCluster {
    pub workspace: Workspace,
    pub state_dir: String,
}

impl BackgroundCluster {
    pub fn new() -> Self {
        Self::in_folder("home")
    }

    /// The same with a state directory of this name.
    pub fn in_folder(state_dir: &str) -> Self {
        Self { workspace: Workspace::new(), state_dir: state_dir.to_owned() }
    }

    /// `flexor` with these arguments, for this cluster.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = server(words);
        command.args(["--state-dir", &self.state_dir]).current_dir(self.workspace.folder.path());
        command
    }

    /// Runs `flexor` to its end.
    pub fn flexor(&self, words: &[&str]) -> ProgramOutput {
        self.command(words).output().unwrap().into()
    }

    /// The output of a command that must succeed, without the path of the folder.
    pub fn says(&self, words: &[&str]) -> String {
        let ran = self.flexor(words);
        assert_eq!(ran.code, 0, "{words:?}: {}{}", ran.stdout, ran.stderr);
        self.shown(&ran.stdout)
    }

    /// A text without the path of the folder and the numbers of processes.
    pub fn shown(&self, text: &str) -> String {
        let text = text.replace(&self.workspace.folder.path().canonicalize().unwrap().display().to_string(), "DIR");
        regex::Regex::new(r"process \d+").unwrap().replace_all(&text, "process PID").into_owned()
    }

    /// The process that runs the cluster.
    pub fn process(&self) -> Pid {
        let ran = self.flexor(&["local", "status", "-o", "json"]);
        let status: Value = serde_json::from_str(&ran.stdout).unwrap();
        Pid::from_raw(i32::try_from(status["process"].as_i64().unwrap()).unwrap())
    }

    /// Kills it, and waits for its end.
    pub fn kill(&self) {
        let pid = self.process();
        let start = proc::started(pid.as_raw()).unwrap();
        kill(pid, Signal::SIGKILL).unwrap();
        self.eventually("its end", || (!proc::is_alive((pid.as_raw(), start))).then_some(()));
    }

    /// The phase of a job.
    pub fn phase(&self, job: &str) -> Option<String> {
        let ran = self.flexor(&["get", "tej", job, "-o", "json"]);
        let job: Value = serde_json::from_str(&ran.stdout).ok()?;
        Some(job["status"]["phase"].as_str()?.to_owned())
    }

    pub fn await_phase(&self, job: &str, phase: &str) {
        self.eventually(&format!("{job} to be {phase}"), || (self.phase(job)? == phase).then_some(()));
    }

    pub fn eventually<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        eventually_or_explain(what, look, || {
            let log = std::fs::read_to_string(self.workspace.state_dir().log()).unwrap_or_default();
            format!("{}\n{log}", self.flexor(&["get", "pods,elasticjobs", "-A"]).stdout)
        })
    }
}

impl Drop for BackgroundCluster {
    fn drop(&mut self) {
        let _ = self.command(&["local", "down", "--now"]).output();
    }
}
