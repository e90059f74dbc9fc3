//! A command with all its descendants, owned as one.
//!
//! The command's parent is a small Python program, `node.py`. It adopts every orphan of the node and kills all of them
//! when its standard input ends: when this guard is dropped or when the process that holds it dies. It is not part of
//! the node: signals to the node go to its descendants.

use std::{
    fs,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    str::FromStr,
    time::Duration,
};

use anyhow::Context as _;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::process_tree;
use crate::{keeper::wait_until, log_tail::last_lines, python::PythonEnv};

const INIT: &str = include_str!("../../python/node.py");

/// How long the end of a node's processes may take.
const END_DEADLINE: Duration = Duration::from_secs(10);

/// How much of the log an error shows.
const SHOWN_LINES: usize = 15;

/// A running command in a folder of its own.
#[derive(Debug)]
pub(crate) struct Node {
    folder: PathBuf,
    init: Child,
}

impl Node {
    /// Makes the folder of a node; the caller then starts the node with it.
    pub(crate) fn make_folder() -> anyhow::Result<tempfile::TempDir> {
        tempfile::Builder::new().prefix("flexor-node-").tempdir().context("make a folder for a node")
    }

    /// Starts `command`, whose Python also runs the first process. It writes to `folder/log`.
    pub(crate) fn start(folder: tempfile::TempDir, python: &PythonEnv, command: &Command) -> anyhow::Result<Self> {
        let script = folder.path().join("node.py");
        fs::write(&script, INIT).with_context(|| format!("write {}", script.display()))?;
        let log_path = log_path(folder.path());
        let log = File::create(&log_path).with_context(|| format!("create {}", log_path.display()))?;
        let mut init = python.command();
        init.arg(script).arg(folder.path()).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => init.env(name, value),
                None => init.env_remove(name),
            };
        }
        init.stdin(Stdio::piped()).stdout(log.try_clone().context("share the log")?).stderr(log);
        let init = init.spawn().context("start the first process of a node")?;
        Ok(Self { folder: folder.keep(), init })
    }

    /// The id of the command's process, while it runs.
    pub(crate) fn command_pid(&self) -> Option<u32> {
        self.number("pid").filter(|_| self.exit_code().is_none())
    }

    /// All processes of the node, parents before their children.
    pub(crate) fn pids(&self) -> Vec<u32> {
        process_tree::descendants(self.init.id())
    }

    /// Sends a signal to every process of the node.
    pub(crate) fn signal_all(&self, signal: Signal) {
        self.pids().into_iter().for_each(|pid| send(pid, signal));
    }

    /// Kills every process of the node and waits until none is left.
    pub(crate) fn kill(&self) {
        wait_until(END_DEADLINE, || {
            self.signal_all(Signal::SIGKILL);
            self.exit_code().is_some() && self.pids().is_empty()
        });
    }

    /// How the command ended, if it has: its exit code, or the negative of the signal that ended it.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.number("exit")
    }

    /// The output of the command and its children.
    pub(crate) fn log(&self) -> String {
        fs::read(log_path(&self.folder)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The end of the log, for errors.
    pub(crate) fn log_tail(&self) -> String {
        last_lines(&self.log(), SHOWN_LINES)
    }

    /// A number that the first process has published.
    fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        fs::read_to_string(self.folder.join(name)).ok()?.parse().ok()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Dropping the standard input closes it, and the first process clears up.
        drop(self.init.stdin.take());
        if !wait_until(END_DEADLINE, || matches!(self.init.try_wait(), Ok(Some(_)))) {
            eprintln!("the node in {} is still ending; it will go on by itself", self.folder.display());
        }
    }
}

/// Sends a signal to a process that may have ended.
pub(crate) fn send(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("log")
}
