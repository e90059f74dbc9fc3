//! The supervisor of a set of programs: it starts them, reports their exits and ends them.
//!
//! One task owns the set. [`Processes::next_exit`] returns exits in the order in which they were seen.
//! [`Processes::end`] (in [`super::termination`]) ends one program with its descendants, [`Processes::end_all`] all of
//! them. A set that is dropped without that kills what is left and waits for nothing.

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use nix::sys::signal::{Signal, kill};
use thiserror::Error;

use super::exit::ProcessExit;
use super::output::{OutputStream, Pumps};
use super::process_tag::StartId;
use super::program::Program;
use super::program_lookup::{ProgramError, find_program};
use super::reaper::{ChildWatch, Origin};
use super::shim::{Shim, ShimTarget};
use super::snapshot::ProcessSnapshot;
use super::tree::Process;

/// The caller's key for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey(pub u32);

/// Why a program was not started.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The last program of this key has not ended.
    #[error("process {pid} of program key {} still runs; end it before it is started again", key.0)]
    Running { key: ProcessKey, pid: u32 },
    /// The working folder does not exist.
    #[error("no folder '{}' for the program to run in; make it, or choose another", path.display())]
    Folder { path: PathBuf },
    /// A mount of the program cannot be prepared.
    #[error("{0}")]
    Mount(String),
    /// No pipe, or no thread to read it.
    #[error("cannot read its output: {0}; check the limits of open files (ulimit -n) and processes (ulimit -u)")]
    Output(io::Error),
    /// The system refuses.
    #[error("{0}; check the limit of processes (ulimit -u)")]
    Spawn(io::Error),
}

/// Programs that are supervised together.
pub struct Processes {
    shim: Shim,
    pub(super) watch: ChildWatch,
    pub(super) pumps: Pumps,
    /// Programs that were started and not yet ended with all their descendants.
    pub(super) starts: BTreeMap<StartId, Start>,
    /// Seen, and not returned yet.
    exits: VecDeque<ProcessExit>,
}

pub(super) struct Start {
    pub(super) key: ProcessKey,
    pid: u32,
    pub(super) running: bool,
}

/// Some programs, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection<'a> {
    Keys(&'a [ProcessKey]),
    All,
}

impl Selection<'_> {
    pub(super) fn includes(self, key: ProcessKey) -> bool {
        match self {
            Selection::Keys(keys) => keys.contains(&key),
            Selection::All => true,
        }
    }
}

impl Processes {
    /// An empty set whose programs are started through `shim`. Call it on a tokio runtime.
    ///
    /// # Errors
    ///
    /// The system does not let us watch children.
    pub fn new(shim: Shim) -> io::Result<Self> {
        let watch = ChildWatch::new()?;
        Ok(Self { shim, watch, pumps: Pumps::default(), starts: BTreeMap::new(), exits: VecDeque::new() })
    }

    /// Starts a program in a session of its own, and returns its process id. A key may be used again when its program has
    /// ended.
    ///
    /// Call it from a thread that outlives the program: the kernel kills the program when the *thread* that started it
    /// ends. On a current-thread runtime that is the thread that runs everything anyway.
    ///
    /// # Errors
    ///
    /// There is no such program, or the system does not let us start it.
    pub fn start(&mut self, key: ProcessKey, program: Program) -> Result<u32, StartError> {
        self.collect();
        if let Some(start) = self.starts.values().find(|start| start.key == key && start.running) {
            return Err(StartError::Running { key, pid: start.pid });
        }
        let Program { program, args, environment, folder, stdin, stdout, stderr, descriptors, groups, mounts } =
            program;
        let (file, run_in) = if mounts.is_empty() {
            if let Some(path) = folder.as_ref().filter(|folder| !folder.is_dir()) {
                return Err(StartError::Folder { path: path.clone() });
            }
            (find_program(&program, environment.path().as_deref(), folder.as_deref())?, PathBuf::new())
        } else {
            // Folder and program may be in a mount; only the shim can see them.
            let run_in = folder.clone().map_or_else(env::current_dir, Ok).map_err(StartError::Spawn)?;
            (PathBuf::from(&program), run_in)
        };
        let [(stdout, out), (stderr, err)] = self.pumps.prepare(stdout, stderr).map_err(StartError::Output)?;
        let spawned = self.watch.spawn(|tag| {
            let (groups, mounts) = (&groups[..], &mounts[..]);
            let target = ShimTarget { groups, mounts, folder: &run_in, file: &file, name: &program, args: &args };
            let mut command = self.shim.command(tag, &target);
            environment.apply(&mut command);
            command.stdin(Stdio::from(stdin)).stdout(stdout).stderr(stderr);
            if let Some(folder) = folder.filter(|_| mounts.is_empty()) {
                command.current_dir(folder);
            }
            pass_down(descriptors, &mut command);
            command
        });
        let (start_id, pid) = spawned.map_err(StartError::Spawn)?;
        self.starts.insert(start_id, Start { key, pid, running: true });
        self.pumps.open(OutputStream::Stdout, start_id, out);
        self.pumps.open(OutputStream::Stderr, start_id, err);
        Ok(pid)
    }

    /// The next exit; `None` when no program runs. Dropping the future loses nothing.
    pub async fn next_exit(&mut self) -> Option<ProcessExit> {
        loop {
            if let Some(exit) = self.take_exit() {
                return Some(exit);
            }
            if self.running() == 0 {
                return None;
            }
            self.watch.changed().await;
        }
    }

    /// An exit that was not returned yet, if there is one.
    pub fn take_exit(&mut self) -> Option<ProcessExit> {
        self.collect();
        self.exits.pop_front()
    }

    /// Number of programs whose exit was not seen yet.
    pub fn running(&self) -> usize {
        self.starts.values().filter(|start| start.running).count()
    }

    /// Notes new exits.
    pub(super) fn collect(&mut self) {
        self.watch.reap();
        for (start_id, outcome, at) in self.watch.take_exits(|start_id| self.starts.contains_key(&start_id)) {
            if let Some(start) = self.starts.get_mut(&start_id) {
                start.running = false;
                self.exits.push_back(ProcessExit { key: start.key, pid: start.pid, outcome, at });
            }
        }
    }

    /// Whether a process is a program of this set, not a descendant.
    pub(super) fn has_started(&self, process: &Process) -> bool {
        self.starts.values().any(|start| i32::try_from(start.pid) == Ok(process.pid))
    }

    /// A snapshot of programs with their descendants.
    ///
    /// Orphans of unknown origin belong to [`Selection::All`], unless this process has other sets of programs from which
    /// they may come.
    pub(super) fn snapshot(&self, selection: Selection<'_>) -> ProcessSnapshot {
        self.watch.snapshot(|origin, is_only_watch| {
            let takes_unknown = selection == Selection::All && is_only_watch;
            match origin {
                Origin::Before => false,
                Origin::Unknown => takes_unknown,
                Origin::Start(start_id) => {
                    self.starts.get(&start_id).map_or(takes_unknown, |start| selection.includes(start.key))
                }
            }
        })
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.snapshot(Selection::All).living() {
            // It may have ended meanwhile.
            _ = kill(process.id(), Signal::SIGKILL);
        }
        for start_id in self.starts.keys() {
            self.watch.forget(*start_id);
        }
    }
}

/// Passes descriptors to a command, as 3, 4 and so on.
fn pass_down(descriptors: Vec<OwnedFd>, command: &mut Command) {
    if descriptors.is_empty() {
        return;
    }
    let mappings = (3..).zip(descriptors).map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd }).collect();
    // An error means two descriptors of the same number, which cannot happen here.
    _ = command.fd_mappings(mappings);
}
