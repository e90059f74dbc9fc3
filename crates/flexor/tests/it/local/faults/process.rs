//! One Flexor process owned by the test: its first line, its log, its memory, and its end.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use flexor_model::env;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::deadline::eventually;
use crate::program::flexor;

/// `flexor` with arguments, and without environment variables that would change the behaviour or output of a server.
pub fn server(args: &[&str]) -> Command {
    let mut command = flexor(args);
    for variable in [env::STATE, env::TOKEN_FILE, env::FAULTS, env::LOG] {
        command.env_remove(variable.name);
    }
    command
}

/// The same server, started by a shell script that ends with `exec "$@"`; `$0` is for the script to use.
pub fn inside(mut shell: Command, script: &str, zero: &Path, server: &Command) -> Command {
    shell.arg("-c").arg(script).arg(zero).arg(server.get_program()).args(server.get_args());
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// A server that runs. Killed when dropped.
pub struct Process {
    child: Child,
    line: serde_json::Value,
    log: Arc<Mutex<String>>,
    /// From the start to its first line.
    pub started_in: Duration,
}

impl Process {
    /// Starts a command that prints one line of JSON once it serves.
    pub fn start(command: &mut Command) -> Self {
        let start = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = follow(child.stderr.take().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started_in = start.elapsed();
        let line = serde_json::from_str(&line).unwrap_or_else(|_| {
            let _ = child.wait();
            panic!("no line of JSON but {line:?}; the log: {}", lock(&log))
        });
        Self { child, line, log, started_in }
    }

    /// A sidecar of this pod, with a store for its programs on a free port.
    pub fn sidecar(pod: &str, upstream: SocketAddr) -> Self {
        Self::sidecar_with(pod, upstream, &[])
    }

    /// A sidecar with more arguments.
    pub fn sidecar_with(pod: &str, upstream: SocketAddr, more: &[&str]) -> Self {
        Self::start(Self::sidecar_command(pod, upstream).args(more))
    }

    /// The command of a sidecar.
    pub fn sidecar_command(pod: &str, upstream: SocketAddr) -> Command {
        let upstream = upstream.to_string();
        server(&["sidecar", "--listen", "127.0.0.1:0", "--upstream", &upstream, "--pod", pod, "-o", "json"])
    }

    /// An address from the first line.
    pub fn address(&self, name: &str) -> SocketAddr {
        self.line[name].as_str().unwrap().parse().unwrap()
    }

    /// A number from the first line.
    pub fn number(&self, name: &str) -> u64 {
        self.line[name].as_u64().unwrap()
    }

    pub fn log(&self) -> String {
        lock(&self.log).clone()
    }

    /// Waits until the log contains this text.
    pub fn await_log(&self, text: &str) {
        eventually(&format!("{text:?} in the log"), || lock(&self.log).contains(text).then_some(()));
    }

    /// Ends it with a signal; its exit code, if it had the time for one.
    pub fn end_with(&mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.wait()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.id().cast_signed()), signal).unwrap();
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> Option<i32> {
        eventually("the end of a process", || self.child.try_wait().unwrap()).code()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its memory, in MiB.
    pub fn memory(&self) -> u64 {
        self.kibibytes("VmRSS:") / 1024
    }

    /// The most memory it ever had, in MiB.
    pub fn peak_memory(&self) -> u64 {
        self.kibibytes("VmHWM:") / 1024
    }

    fn kibibytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the log continuously, so that the process never blocks on its pipe.
fn follow(mut stderr: ChildStderr) -> Arc<Mutex<String>> {
    let log = Arc::new(Mutex::new(String::new()));
    let written = Arc::clone(&log);
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = stderr.read(&mut buffer) {
            lock(&written).push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    });
    log
}

fn lock(log: &Mutex<String>) -> MutexGuard<'_, String> {
    log.lock().unwrap()
}
