//! The shim: what a process is between our fork and the user's program.
//!
//! A program must be a session of its own and die with us. Both are things that a process does to itself, and code
//! between fork and exec is unsafe in Rust, so we start a hidden command of our own binary, which does them and then
//! becomes the program. Arguments: those of the caller that lead to [`exec_shim`], then our process id, the mark that
//! the program carries, its file, its name (`argv[0]`) and its arguments.
//!
//! The kernel ends a program with us, not what the program has started; while we can still act, we end those too
//! ([`super::ending`]), and when we cannot, a [keeper](super::Keeper) does.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{getppid, setsid};

use super::lineage::Mark;

/// What a shell answers for a command that it cannot execute.
const CANNOT_EXECUTE: u8 = 126;
/// What a shell answers for a command that it cannot find.
const NOT_FOUND: u8 = 127;
/// What a command answers that was called in a wrong way.
const USAGE: u8 = 2;

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

    /// The command that becomes the program of this file, name and arguments, once it is started.
    pub(super) fn command(&self, mark: Mark, file: &Path, name: &OsStr, args: &[OsString]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(std::process::id().to_string()).arg(mark.to_string());
        command.arg(file).arg(name).args(args);
        command
    }
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
    let (Some(parent), Some(mark), Some(file), Some(name)) = (parent, mark, args.next(), args.next()) else {
        let message = "this command starts programs for flexor and is not meant to be called by hand".to_owned();
        return NotStarted { code: USAGE, message };
    };
    mark.put_on();
    if let Err(errno) = setsid().and_then(|_| prctl::set_pdeathsig(Signal::SIGKILL)) {
        return NotStarted::because(&name, &errno.into());
    }
    // A parent that died before the line above left no signal behind.
    if getppid().as_raw() != parent {
        let message = format!("'{}' is not started: whoever wanted it is gone", name.display());
        return NotStarted { code: CANNOT_EXECUTE, message };
    }
    let error = Command::new(&file).arg0(&name).args(args).exec();
    NotStarted::because(&name, &error)
}

impl NotStarted {
    fn because(name: &OsStr, error: &io::Error) -> Self {
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
