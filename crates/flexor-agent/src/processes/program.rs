//! One program as it is to be started.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;

use super::environment::{Environment, EnvironmentChanges};
use super::output::Output;
use super::view::Mount;

/// A program, and all that it is started with. What it holds open is closed here once it runs.
#[derive(Debug)]
pub struct Program {
    /// A path, or a name to look for in the program's `PATH`.
    pub program: OsString,
    /// What follows the program's name.
    pub args: Vec<OsString>,
    /// Its environment.
    pub environment: Environment,
    /// The folder that it runs in, where that is not ours. A path of the program is relative to it.
    pub folder: Option<PathBuf>,
    /// What it reads.
    pub stdin: Input,
    /// Where its standard output goes.
    pub stdout: Output,
    /// Where its standard error goes.
    pub stderr: Output,
    /// What it finds open besides, as descriptors 3, 4 and so on: listening sockets, say.
    pub descriptors: Vec<OwnedFd>,
    /// Control groups that it is in before it runs, by their folders.
    pub groups: Vec<PathBuf>,
    /// What it finds at other paths than this machine has it. With any, folder and program are looked for behind them.
    pub mounts: Vec<Mount>,
}

/// What a program reads from its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// What we would.
    Inherited,
    /// Nothing.
    Null,
}

impl From<Input> for Stdio {
    fn from(input: Input) -> Self {
        match input {
            Input::Inherited => Stdio::inherit(),
            Input::Null => Stdio::null(),
        }
    }
}

impl Program {
    /// A program that has everything from us.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            environment: Environment::Inherited(EnvironmentChanges::default()),
            folder: None,
            stdin: Input::Inherited,
            stdout: Output::Inherited,
            stderr: Output::Inherited,
            descriptors: Vec::new(),
            groups: Vec::new(),
            mounts: Vec::new(),
        }
    }
}
