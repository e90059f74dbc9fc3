//! The shim: the program that a process runs between our fork and the user's program.
//!
//! A program needs its own session, its control groups and its view of the files, and must die with us. A process does
//! these things to itself, and code between fork and exec is unsafe in Rust. So we start a hidden command of our own
//! binary, which does them and then executes the program. Its arguments: those of the caller that lead to [`exec_shim`],
//! our process id, the program's tag, the number of control groups and their folders, the number of mounts ([`view`]),
//! each with its mode and two paths, the working folder, the program's file, its name (`argv[0]`) and its arguments.
//!
//! The kernel kills a program when we end, but not the processes that the program has started. As long as we run, we end
//! those too ([`super::termination`]); when we are killed, a [keeper](super::Keeper) does.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{getppid, setsid};

use super::process_tag::ProcessTag;
use super::program_lookup::{ProgramError, find_program};
use super::view::{self, Mount};

/// Exit code of a shell for a command that it cannot execute.
const CANNOT_EXECUTE: u8 = 126;
/// Exit code of a shell for a command that it cannot find.
const NOT_FOUND: u8 = 127;
/// Exit code of a container runtime that cannot create a container.
const NO_CONTAINER: u8 = 128;
/// Exit code of a command that was called with wrong arguments.
const USAGE: u8 = 2;
/// The mode of a mount that cannot be written.
const READ_ONLY: &str = "ro";
/// A process that writes this into a control group's list joins the group.
const THIS_PROCESS: &str = "0";

/// How to start the shim: a program and the arguments that make it call [`exec_shim`] with what follows them.
#[derive(Debug, Clone)]
pub struct Shim {
    program: PathBuf,
    args: Vec<OsString>,
}

impl Shim {
    /// `program`, an absolute path, is a shim when it is started with `args`.
    pub fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }

    /// The command that executes a program through the shim.
    pub(super) fn command(&self, tag: ProcessTag, target: &ShimTarget<'_>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(std::process::id().to_string()).arg(tag.to_string());
        command.arg(target.groups.len().to_string()).args(target.groups);
        command.arg(target.mounts.len().to_string());
        for mount in target.mounts {
            command.arg(if mount.read_only { READ_ONLY } else { "" }).arg(&mount.from).arg(&mount.at);
        }
        command.arg(target.folder).arg(target.file).arg(target.name).args(target.args);
        command
    }
}

/// The program that the shim executes.
pub(super) struct ShimTarget<'a> {
    /// Folders of the control groups that it joins.
    pub(super) groups: &'a [PathBuf],
    pub(super) mounts: &'a [Mount],
    /// Its working folder where there are mounts, which may contain it. Unused without mounts.
    pub(super) folder: &'a Path,
    /// The program's file. With mounts the shim looks it up by its name instead.
    pub(super) file: &'a Path,
    pub(super) name: &'a OsStr,
    pub(super) args: &'a [OsString],
}

/// Why the shim did not execute the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShimError {
    /// The exit code that a shell would have.
    pub code: u8,
    message: String,
}

impl fmt::Display for ShimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Gives this process a session of its own, ties its life to the process that started it, and executes the program that
/// `args` name. Returns only on failure.
///
/// Call it at the very start of a process, before it has threads.
pub fn exec_shim(args: impl IntoIterator<Item = OsString>) -> ShimError {
    let mut args = args.into_iter();
    let parent = args.next().and_then(|pid| pid.to_str()?.parse::<i32>().ok());
    let tag = args.next().and_then(|tag| ProcessTag::parse(tag.to_str()?));
    let count = |args: &mut dyn Iterator<Item = OsString>| {
        args.next().and_then(|count| count.to_str()?.parse::<usize>().ok()).unwrap_or(0)
    };
    let groups = count(&mut args);
    let groups: Vec<PathBuf> = args.by_ref().take(groups).map(PathBuf::from).collect();
    let mounts: Vec<Mount> = (0..count(&mut args)).filter_map(|_| mount(&mut args)).collect();
    let (folder, file, name) = (args.next(), args.next(), args.next());
    let (Some(parent), Some(tag), Some(folder), Some(file), Some(name)) = (parent, tag, folder, file, name) else {
        let message = "this command starts programs for flexor and is not meant to be called by hand".to_owned();
        return ShimError { code: USAGE, message };
    };
    tag.apply_to_self();
    if let Err(errno) = setsid().and_then(|_| prctl::set_pdeathsig(Signal::SIGKILL)) {
        return ShimError::of(&name, &errno.into());
    }
    // A parent that died before the line above caused no signal.
    if getppid().as_raw() != parent {
        let message = format!("'{}' is not started: the process that wanted it is gone", name.display());
        return ShimError { code: CANNOT_EXECUTE, message };
    }
    for group in &groups {
        if let Err(error) = fs::write(group.join("cgroup.procs"), THIS_PROCESS) {
            let message = format!(
                "'{}' is not started: its control group {} refuses it: {error}",
                name.display(),
                group.display()
            );
            return ShimError { code: CANNOT_EXECUTE, message };
        }
    }
    let file = if mounts.is_empty() { Ok(file.into()) } else { find_in_view(&mounts, Path::new(&folder), &name) };
    let file = match file {
        Ok(file) => file,
        Err(failed) => return failed,
    };
    let error = Command::new(&file).arg0(&name).args(args).exec();
    ShimError::of(&name, &error)
}

fn mount(args: &mut impl Iterator<Item = OsString>) -> Option<Mount> {
    let (mode, from, at) = (args.next()?, args.next()?, args.next()?);
    Some(Mount { at: at.into(), from: from.into(), read_only: mode == READ_ONLY })
}

/// Enters the view with the mounts, and looks up the program, which may be in one of them.
fn find_in_view(mounts: &[Mount], folder: &Path, name: &OsStr) -> Result<PathBuf, ShimError> {
    let refused = |code: u8, message: String| ShimError { code, message };
    view::enter(mounts, folder).map_err(|error| refused(NO_CONTAINER, error.to_string()))?;
    find_program(name, env::var_os("PATH").as_deref(), None).map_err(|error| match error {
        ProgramError::NotExecutable { .. } | ProgramError::Folder { .. } => refused(CANNOT_EXECUTE, error.to_string()),
        ProgramError::Empty
        | ProgramError::NotInPath { .. }
        | ProgramError::OnlyHere { .. }
        | ProgramError::NoSuchFile { .. } => refused(NOT_FOUND, error.to_string()),
    })
}

impl ShimError {
    fn of(name: &OsStr, error: &io::Error) -> Self {
        let next = match error.kind() {
            // The file existed when it was looked up.
            io::ErrorKind::NotFound => "; does the interpreter in its first line exist?",
            io::ErrorKind::ArgumentListTooLong => "; shorten its arguments and environment",
            _ => "",
        };
        let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
        Self { code, message: format!("cannot start '{}': {error}{next}", name.display()) }
    }
}
