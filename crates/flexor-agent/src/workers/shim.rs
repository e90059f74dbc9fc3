//! The shim: what a worker is between the launcher's fork and the user's program.
//!
//! A worker must be a session of its own and die with the launcher. Both are things that a process does to itself, and
//! code between fork and exec is unsafe in Rust, so the launcher starts a hidden command of its own binary, which does
//! them and then becomes the program. Arguments: those of the caller that lead to [`exec_shim`], then the launcher's
//! process id, the program's file, its name (`argv[0]`) and its arguments.
//!
//! The kernel ends a worker with its launcher, not what the worker has started; a launcher that can still act ends
//! those too ([`super::ending`]).

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use jiff::Timestamp;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{getppid, setsid};

use super::error_file::{ERROR_FILE_VARIABLE, ErrorReport};
use super::worker::WorkerSpec;

/// What a shell answers for a command that it cannot execute.
const CANNOT_EXECUTE: u8 = 126;
/// What a shell answers for a command that it cannot find.
const NOT_FOUND: u8 = 127;

/// How to start the shim: a program and the arguments that make it call [`exec_shim`] with what follows them.
#[derive(Debug, Clone)]
pub struct Shim {
    program: PathBuf,
    args: Vec<OsString>,
}

impl Shim {
    /// The shim that `program` is when it is started with `args`.
    pub fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }

    /// The command that becomes the worker, whose program is `file`.
    pub(super) fn command(&self, file: &Path, worker: &WorkerSpec) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(std::process::id().to_string());
        command.arg(file).arg(&worker.program).args(&worker.args);
        worker.environment.apply(&mut command);
        command
    }
}

/// Makes this process a session of its own that dies with the launcher, and then the program that `args` name.
///
/// Comes back only where that failed; the reason is then on standard error and in the worker's error file. To be called
/// at the very start of a process, before it has threads.
pub fn exec_shim(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter();
    let launcher = args.next().and_then(|pid| pid.to_str()?.parse::<i32>().ok());
    let (Some(launcher), Some(file), Some(name)) = (launcher, args.next(), args.next()) else {
        eprintln!("this command starts workers for `flexor launch` and is not meant to be called by hand");
        return ExitCode::from(2);
    };
    if let Err(errno) = setsid().and_then(|_| prctl::set_pdeathsig(Signal::SIGKILL)) {
        return give_up(&name, &errno.into());
    }
    // A launcher that died before the line above left no signal behind.
    if getppid().as_raw() != launcher {
        return ExitCode::from(CANNOT_EXECUTE);
    }
    let error = Command::new(&file).arg0(&name).args(args).exec();
    give_up(&name, &error)
}

fn give_up(name: &OsString, error: &io::Error) -> ExitCode {
    let not_found = error.kind() == io::ErrorKind::NotFound;
    let next = match error.kind() {
        // The file was there when the launcher looked.
        io::ErrorKind::NotFound => "; does the interpreter in its first line exist?",
        io::ErrorKind::ArgumentListTooLong => "; shorten its arguments and environment",
        _ => "",
    };
    let message = format!("cannot start '{}': {error}{next}", name.display());
    eprintln!("{message}");
    let code = if not_found { NOT_FOUND } else { CANNOT_EXECUTE };
    if let Some(path) = env::var_os(ERROR_FILE_VARIABLE).filter(|path| !path.is_empty()) {
        let report =
            ErrorReport { message, traceback: None, at: Some(Timestamp::now()), error_code: Some(code.into()) };
        if let Err(error) = report.write(Path::new(&path)) {
            eprintln!("cannot write the error file '{}': {error}", path.display());
        }
    }
    ExitCode::from(code)
}
