//! One `flexor launch` process owned by the test.

use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::faults::deadline::{PATIENCE, eventually};
use super::super::faults::process::server;
use super::folder::Folder;

/// `flexor launch` in a folder, without environment variables that would change its behaviour.
pub fn launch<S: AsRef<OsStr>>(folder: &Folder, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = server(&["launch"]);
    let ours = ["PET_", "TORCH", "OMP_", "POD_NAME", "RANK", "WORLD_SIZE", "MASTER_", "PYTHON_EXEC"];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| ours.iter().any(|start| name.starts_with(start))) {
            command.env_remove(name);
        }
    }
    // The leftovers of a launch are then in the folder, too.
    command.args(args).current_dir(folder.path()).env("TMPDIR", folder.path());
    command
}

/// A launch of one machine whose processes run a script.
pub fn alone(folder: &Folder, options: &[&str], script: &str) -> Launcher {
    Launcher::start(launch(folder, ["--standalone"]).args(options).args(["sh", "-c", script]))
}

/// A launch of one machine, to its end.
pub fn standalone(folder: &Folder, options: &[&str], script: &str) -> LauncherOutput {
    alone(folder, options, script).wait()
}

/// A launcher that runs. Killed when dropped, and its workers with it.
pub struct Launcher {
    child: Child,
    stdout: Stream,
    stderr: Stream,
    patience: Duration,
}

#[derive(Debug)]
pub struct LauncherOutput {
    /// Its exit code; none where a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Launcher {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = Stream::follow(child.stdout.take().unwrap());
        let stderr = Stream::follow(child.stderr.take().unwrap());
        Self { child, stdout, stderr, patience: PATIENCE }
    }

    /// Sets the deadline of every wait, for programs with a slow start.
    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub fn id(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.id(), signal).unwrap();
    }

    /// Its standard output so far, with that of its workers.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Its standard error so far, with that of its workers.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until a condition holds. `what` completes "waited for"; the error contains the output.
    pub fn await_or_explain(&self, what: &str, holds: impl Fn() -> bool) {
        self.eventually(what, holds);
    }

    /// Waits until the standard output contains a text this often.
    pub fn await_stdout(&self, text: &str, times: usize) {
        self.eventually(&format!("{text:?}"), || self.stdout().matches(text).count() >= times);
    }

    /// Waits until the standard error contains a text.
    pub fn await_stderr(&self, text: &str) {
        self.await_stderr_times(text, 1);
    }

    /// Waits until the standard error contains a text this often.
    pub fn await_stderr_times(&self, text: &str, times: usize) {
        self.eventually(&format!("{text:?}"), || self.stderr().matches(text).count() >= times);
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The most memory that it ever had, in MiB.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// Waits for its end and for the end of its output: a process that holds the output open would be a leftover.
    pub fn wait(mut self) -> LauncherOutput {
        self.eventually("the end of its output", || self.stdout.has_ended() && self.stderr.has_ended());
        let code = eventually("the end of a launcher", || self.child.try_wait().unwrap()).code();
        LauncherOutput { code, stdout: self.stdout(), stderr: self.stderr() }
    }

    /// Waits for an exit with this code; returns its output.
    pub fn wait_for(self, code: i32) -> LauncherOutput {
        let ended = self.wait();
        assert_eq!(ended.code, Some(code), "{}\n{}", ended.stdout, ended.stderr);
        ended
    }

    fn eventually(&self, what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + self.patience;
        while !holds() {
            if Instant::now() >= deadline {
                panic!("waited {:?} for {what}\n{}\n{}", self.patience, self.stdout(), self.stderr());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until they all have ended well.
pub fn end_well(launchers: impl IntoIterator<Item = Launcher>) {
    for launcher in launchers {
        launcher.wait_for(0);
    }
}

/// A stream that a thread reads continuously, so that its writer never blocks.
struct Stream {
    text: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl Stream {
    fn follow(mut stream: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        });
        Self { text, reader }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    fn has_ended(&self) -> bool {
        self.reader.is_finished()
    }
}

/// Waits until no process has this id, except perhaps a zombie.
pub fn await_gone(pid: &str) {
    eventually(&format!("the end of process {pid}"), || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        matches!(state, None | Some('Z' | 'X')).then_some(())
    });
}
