//! Runs the test launcher: builders of scenarios, and guards that leave no process behind.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::await_condition::await_condition;
use crate::scenario::{LaunchResult, Scenario};

const LAUNCHER: &str = env!("CARGO_BIN_EXE_agent-test-launcher");

/// A launcher that is to be started.
pub(crate) struct Launch {
    pub(crate) scenario: Scenario,
    folder: Folder,
}

impl Launch {
    /// With one worker per shell script.
    pub(crate) fn sh(scripts: &[&str]) -> Self {
        let worker = |script: &&str| ["sh", "-c", script].map(str::to_owned).to_vec();
        Self::new(scripts.iter().map(worker).collect())
    }

    /// With one worker, a Python script.
    pub(crate) fn python(script: &str) -> Self {
        Self::new(vec![["/usr/bin/env", "python3", "-c", script].map(str::to_owned).to_vec()])
    }

    /// With one worker per command.
    pub(crate) fn new(workers: Vec<Vec<String>>) -> Self {
        let folder = Folder(Rc::new(tempfile::tempdir().unwrap()));
        fs::create_dir(folder.path("notes")).unwrap();
        let scenario = Scenario {
            workers,
            attempts: 1,
            ends_on_failure: true,
            grace_ms: 60_000,
            drops_the_group: false,
            log_dir: folder.path("logs"),
            redirects: "0".to_owned(),
            tee: "0".to_owned(),
            shown: None,
            prefix: None,
            error_file: None,
        };
        Self { scenario, folder }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Scenario)) -> Self {
        change(&mut self.scenario);
        self
    }

    /// A path below the folder of the test.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Starts it; its output goes to files.
    pub(crate) fn start(self) -> Running {
        let stdout = File::create(self.path("stdout")).unwrap();
        self.start_with(Command::new(LAUNCHER), stdout.into())
    }

    /// Starts it with this standard output.
    pub(crate) fn start_to(self, stdout: Stdio) -> Running {
        self.start_with(Command::new(LAUNCHER), stdout)
    }

    /// Starts it through a shell script, which gets the launcher's command as arguments.
    pub(crate) fn start_by(self, script: &str) -> Running {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", LAUNCHER]);
        self.start_with(shell, Stdio::null())
    }

    /// Starts it and waits for its end.
    pub(crate) fn run(self) -> Ended {
        self.start().finish()
    }

    fn start_with(self, mut command: Command, stdout: Stdio) -> Running {
        fs::write(self.path("scenario.json"), serde_json::to_vec(&self.scenario).unwrap()).unwrap();
        command.arg("run").args([self.path("scenario.json"), self.path("result.json")]);
        let stderr = File::create(self.path("stderr")).unwrap();
        let child = command.env("NOTES", self.path("notes")).stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn();
        Running { child: child.unwrap(), folder: self.folder }
    }
}

/// A launcher that runs; ended with the test.
pub(crate) struct Running {
    child: Child,
    folder: Folder,
}

impl Running {
    /// Waits for the line that a worker writes to `$NOTES/<name>`.
    pub(crate) fn note(&self, name: &str) -> String {
        await_condition(&format!("note {name}"), || self.folder.note(name))
    }

    /// Waits for the process id that a worker writes to `$NOTES/<name>`.
    pub(crate) fn pid(&self, name: &str) -> i32 {
        self.note(name).parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Ended {
        let status = await_condition("the end of the launcher", || self.child.try_wait().unwrap());
        let folder = self.folder.clone();
        let [stdout, stderr, result] = ["stdout", "stderr", "result.json"].map(|name| folder.text(name));
        let (stdout, stderr) = (stdout.unwrap_or_default(), stderr.unwrap());
        assert!(status.success(), "the launcher failed with {status}: {stderr}");
        Ended { outcome: serde_json::from_str(&result.unwrap()).unwrap(), stdout, stderr, folder }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A launcher that has ended.
pub(crate) struct Ended {
    pub(crate) outcome: LaunchResult,
    /// Empty if it did not go to a file.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    folder: Folder,
}

impl Ended {
    /// The line that a worker has written to `$NOTES/<name>`.
    pub(crate) fn note(&self, name: &str) -> Option<String> {
        self.folder.note(name)
    }

    /// A file below the folder of the test.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.folder.text(path)
    }

    /// A file of a worker's in the log folder, of attempt 0.
    pub(crate) fn log(&self, local_rank: u32, file: &str) -> Option<String> {
        fs::read_to_string(self.attempt(0).join(local_rank.to_string()).join(file)).ok()
    }

    /// The folder of an attempt.
    pub(crate) fn attempt(&self, number: u32) -> PathBuf {
        let run = fs::read_dir(self.folder.path("logs")).unwrap().next().unwrap().unwrap().path();
        run.join(format!("attempt_{number}"))
    }
}

/// The folder of one test.
#[derive(Clone)]
struct Folder(Rc<TempDir>);

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// A complete note, with its newline.
    fn note(&self, name: &str) -> Option<String> {
        self.text(&format!("notes/{name}"))?.strip_suffix('\n').map(str::to_owned)
    }
}
