//! Programs that are supervised together: started, heard of, and ended.
//!
//! One task owns them. [`Processes::next_exit`] gives out exits in the order in which they were seen;
//! [`Processes::end`] (in [`super::ending`]) takes down what one has left behind, [`Processes::end_all`] what all have.
//! If this is dropped without that, it kills what is left and waits for nobody.

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
use super::lineage::Serial;
use super::look::Look;
use super::lookup::{ProgramError, find_program};
use super::output::{Pumps, Stream};
use super::program::Program;
use super::reaper::{Origin, Watch};
use super::shim::{Becomes, Shim};
use super::tree::Process;

/// The caller's name for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey(pub u32);

/// Why a program was not started.
#[derive(Debug, Error)]
pub enum StartError {
    /// There is no such program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The last one of this key has not ended.
    #[error("process {pid} of program key {} still runs; end it before it is started again", key.0)]
    Running {
        /// The key.
        key: ProcessKey,
        /// What runs.
        pid: u32,
    },
    /// The folder that it was to run in is not there.
    #[error("no folder '{}' for the program to run in; make it, or choose another", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// What it was to find at another path cannot be had.
    #[error("{0}")]
    Mount(String),
    /// No pipe, or no thread to read it.
    #[error("cannot read its output: {0}; check the limits of open files (ulimit -n) and processes (ulimit -u)")]
    Output(io::Error),
    /// The system would not.
    #[error("{0}; check the limit of processes (ulimit -u)")]
    Spawn(io::Error),
}

/// Programs that are supervised together.
pub struct Processes {
    shim: Shim,
    pub(super) watch: Watch,
    pub(super) pumps: Pumps,
    /// All that was started and not yet ended with all its descendants.
    pub(super) starts: BTreeMap<Serial, Start>,
    /// Seen, and not given out.
    exits: VecDeque<ProcessExit>,
}

pub(super) struct Start {
    pub(super) key: ProcessKey,
    pid: u32,
    pub(super) running: bool,
}

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose<'a> {
    These(&'a [ProcessKey]),
    All,
}

impl Whose<'_> {
    pub(super) fn includes(self, key: ProcessKey) -> bool {
        match self {
            Whose::These(keys) => keys.contains(&key),
            Whose::All => true,
        }
    }
}

impl Processes {
    /// None yet; they will be started through `shim`. To be called on a tokio runtime.
    ///
    /// # Errors
    ///
    /// The system does not let us watch children.
    pub fn new(shim: Shim) -> io::Result<Self> {
        let watch = Watch::new()?;
        Ok(Self { shim, watch, pumps: Pumps::default(), starts: BTreeMap::new(), exits: VecDeque::new() })
    }

    /// Starts a program in a session of its own, and says which process it is. A key may be used again when its program
    /// has ended.
    ///
    /// To be called from a thread that lives as long as the program shall: the kernel ends it when the *thread* that
    /// started it ends. On a current-thread runtime that is the thread that waits for everything anyway.
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
            // Folder and program may be in what is mounted; the shim will see.
            let run_in = folder.clone().map_or_else(env::current_dir, Ok).map_err(StartError::Spawn)?;
            (PathBuf::from(&program), run_in)
        };
        let [(stdout, out), (stderr, err)] = self.pumps.prepare(stdout, stderr).map_err(StartError::Output)?;
        let spawned = self.watch.spawn(|mark| {
            let (groups, mounts) = (&groups[..], &mounts[..]);
            let becomes = Becomes { groups, mounts, folder: &run_in, file: &file, name: &program, args: &args };
            let mut command = self.shim.command(mark, &becomes);
            environment.apply(&mut command);
            command.stdin(Stdio::from(stdin)).stdout(stdout).stderr(stderr);
            if let Some(folder) = folder.filter(|_| mounts.is_empty()) {
                command.current_dir(folder);
            }
            pass_down(descriptors, &mut command);
            command
        });
        let (serial, pid) = spawned.map_err(StartError::Spawn)?;
        self.starts.insert(serial, Start { key, pid, running: true });
        self.pumps.open(Stream::Stdout, serial, out);
        self.pumps.open(Stream::Stderr, serial, err);
        Ok(pid)
    }

    /// The next program that ended; `None` when none runs. Giving up this wait loses nothing.
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

    /// A program that has ended, if there is one that was not given out yet.
    pub fn take_exit(&mut self) -> Option<ProcessExit> {
        self.collect();
        self.exits.pop_front()
    }

    /// How many programs have not ended, as far as was seen.
    pub fn running(&self) -> usize {
        self.starts.values().filter(|start| start.running).count()
    }

    /// Notes the exits that are there.
    pub(super) fn collect(&mut self) {
        self.watch.reap();
        for (serial, outcome, at) in self.watch.take_exits(|serial| self.starts.contains_key(&serial)) {
            if let Some(start) = self.starts.get_mut(&serial) {
                start.running = false;
                self.exits.push_back(ProcessExit { key: start.key, pid: start.pid, outcome, at });
            }
        }
    }

    /// Whether a process is one of those that were started here, not a descendant.
    pub(super) fn has_started(&self, process: &Process) -> bool {
        self.starts.values().any(|start| i32::try_from(start.pid) == Ok(process.pid))
    }

    /// Looks at programs and whatever descends from them.
    ///
    /// Orphans of unknown origin are among those of all, unless there are other programs in this process of ours, from
    /// which they may come.
    pub(super) fn look(&self, whose: Whose<'_>) -> Look {
        self.watch.look(|origin, alone| {
            let unknown = whose == Whose::All && alone;
            match origin {
                Origin::Before => false,
                Origin::Unknown => unknown,
                Origin::Start(serial) => self.starts.get(&serial).map_or(unknown, |start| whose.includes(start.key)),
            }
        })
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.look(Whose::All).living() {
            // It may have ended meanwhile, which is what is wanted.
            _ = kill(process.id(), Signal::SIGKILL);
        }
        for serial in self.starts.keys() {
            self.watch.forget(*serial);
        }
    }
}

/// Gives a command descriptors 3, 4 and so on.
fn pass_down(descriptors: Vec<OwnedFd>, command: &mut Command) {
    if descriptors.is_empty() {
        return;
    }
    let mappings = (3..).zip(descriptors).map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd }).collect();
    // Only two of the same number are refused.
    _ = command.fd_mappings(mappings);
}
