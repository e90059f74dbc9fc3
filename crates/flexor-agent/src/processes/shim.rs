//! The shim: what a process is between our fork and the user's program.
//!
//! A program must be a session of its own, within its limits, with its own view of the files, and die with us. These are
//! things that a process does to itself, and code between fork and exec is unsafe in Rust, so we start a hidden command of
//! our own binary, which does them and then becomes the program. Arguments: those of the caller that lead to
//! [`exec_shim`], then our process id, the mark that the program carries, how many control groups it is to be in, their
//! folders, how many mounts it is to see ([`view`]), each with its mode and two paths, the folder that it runs in, its
//! file, its name (`argv[0]`) and its arguments.
//!
//! The kernel ends a program with us, not what the program has started; while we can still act, we end those too
//! ([`super::ending`]), and when we cannot, a [keeper](super::Keeper) does.

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

use super::lineage::Mark;
use super::lookup::{ProgramError, find_program};
use super::view::{self, Mount};

/// What a shell answers for a command that it cannot execute.
const CANNOT_EXECUTE: u8 = 126;
/// What a shell answers for a command that it cannot find.
const NOT_FOUND: u8 = 127;
/// What a container runtime answers where it cannot make a container.
const NO_CONTAINER: u8 = 128;
/// What a command answers that was called in a wrong way.
const USAGE: u8 = 2;
/// What leads a mount that cannot be written.
const READ_ONLY: &str = "ro";
/// Whoever writes this into a control group's list is put into it.
const THIS_PROCESS: &str = "0";

/// How to start the shim: a program and the arguments that make it call [`exec_shim`] with what follows them.
#[derive(Debug, Clone)]
pub struct Shim {
    program: PathBuf,
    args: Vec<OsString>,
}

impl Shim {
    /// The shim that `program`, an absolute path, is when it is started with `args`.
    pub fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }

    /// The command that becomes a program, once it is started.
    pub(super) fn command(&self, mark: Mark, becomes: &Becomes<'_>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(std::process::id().to_string()).arg(mark.to_string());
        command.arg(becomes.groups.len().to_string()).args(becomes.groups);
        command.arg(becomes.mounts.len().to_string());
        for mount in becomes.mounts {
            command.arg(if mount.read_only { READ_ONLY } else { "" }).arg(&mount.from).arg(&mount.at);
        }
        command.arg(becomes.folder).arg(becomes.file).arg(becomes.name).args(becomes.args);
        command
    }
}

/// What the shim becomes.
pub(super) struct Becomes<'a> {
    /// The control groups that it is in then.
    pub(super) groups: &'a [PathBuf],
    /// What it finds at other paths.
    pub(super) mounts: &'a [Mount],
    /// Where it runs, if there are mounts, as only they may make it.
    pub(super) folder: &'a Path,
    /// The file of the program; looked for by its name if there are mounts.
    pub(super) file: &'a Path,
    /// Its name.
    pub(super) name: &'a OsStr,
    /// Its arguments.
    pub(super) args: &'a [OsString],
}

/// Why the shim did not become the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotStarted {
    /// What a shell would answer.
    pub code: u8,
    message: String,
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Makes this process a session of its own that dies with the one that started it, and then the program that `args`
/// name. Comes back only where that failed.
///
/// To be called at the very start of a process, before it has threads.
pub fn exec_shim(args: impl IntoIterator<Item = OsString>) -> NotStarted {
    let mut args = args.into_iter();
    let parent = args.next().and_then(|pid| pid.to_str()?.parse::<i32>().ok());
    let mark = args.next().and_then(|mark| Mark::parse(mark.to_str()?));
    let count = |args: &mut dyn Iterator<Item = OsString>| {
        args.next().and_then(|count| count.to_str()?.parse::<usize>().ok()).unwrap_or(0)
    };
    let groups = count(&mut args);
    let groups: Vec<PathBuf> = args.by_ref().take(groups).map(PathBuf::from).collect();
    let mounts: Vec<Mount> = (0..count(&mut args)).filter_map(|_| mount(&mut args)).collect();
    let (folder, file, name) = (args.next(), args.next(), args.next());
    let (Some(parent), Some(mark), Some(folder), Some(file), Some(name)) = (parent, mark, folder, file, name) else {
        let message = "this command starts programs for flexor and is not meant to be called by hand".to_owned();
        return NotStarted { code: USAGE, message };
    };
    mark.put_on();
    if let Err(errno) = setsid().and_then(|_| prctl::set_pdeathsig(Signal::SIGKILL)) {
        return NotStarted::cause(&name, &errno.into());
    }
    // A parent that died before the line above left no signal behind.
    if getppid().as_raw() != parent {
        let message = format!("'{}' is not started: whoever wanted it is gone", name.display());
        return NotStarted { code: CANNOT_EXECUTE, message };
    }
    for group in &groups {
        if let Err(error) = fs::write(group.join("cgroup.procs"), THIS_PROCESS) {
            let message = format!(
                "'{}' is not started: its control group {} refuses it: {error}",
                name.display(),
                group.display()
            );
            return NotStarted { code: CANNOT_EXECUTE, message };
        }
    }
    let file = if mounts.is_empty() { Ok(file.into()) } else { in_its_view(&mounts, Path::new(&folder), &name) };
    let file = match file {
        Ok(file) => file,
        Err(failed) => return failed,
    };
    let error = Command::new(&file).arg0(&name).args(args).exec();
    NotStarted::cause(&name, &error)
}

fn mount(args: &mut impl Iterator<Item = OsString>) -> Option<Mount> {
    let (mode, from, at) = (args.next()?, args.next()?, args.next()?);
    Some(Mount { at: at.into(), from: from.into(), read_only: mode == READ_ONLY })
}

/// Mounts what the program is to find, and finds the program, which may be in there.
fn in_its_view(mounts: &[Mount], folder: &Path, name: &OsStr) -> Result<PathBuf, NotStarted> {
    let refused = |code: u8, message: String| NotStarted { code, message };
    view::enter(mounts, folder).map_err(|error| refused(NO_CONTAINER, error.to_string()))?;
    find_program(name, env::var_os("PATH").as_deref(), None).map_err(|error| match error {
        ProgramError::NotExecutable { .. } | ProgramError::Folder { .. } => refused(CANNOT_EXECUTE, error.to_string()),
        ProgramError::Empty
        | ProgramError::NotInPath { .. }
        | ProgramError::OnlyHere { .. }
        | ProgramError::NoSuchFile { .. } => refused(NOT_FOUND, error.to_string()),
    })
}

impl NotStarted {
    fn cause(name: &OsStr, error: &io::Error) -> Self {
        let next = match error.kind() {
            // The file was there when it was looked for.
            io::ErrorKind::NotFound => "; does the interpreter in its first line exist?",
            io::ErrorKind::ArgumentListTooLong => "; shorten its arguments and environment",
            _ => "",
        };
        let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
        Self { code, message: format!("cannot start '{}': {error}{next}", name.display()) }
    }
}
