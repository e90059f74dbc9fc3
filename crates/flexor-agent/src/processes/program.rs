//! The description of one program that is to be started.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;

use super::environment::{Environment, EnvironmentChanges};
use super::output::Output;
use super::view::Mount;

/// A program with everything that its start needs. Its descriptors are closed in this process once it runs.
#[derive(Debug)]
pub struct Program {
    /// A path, or a name that is looked up in the program's `PATH`.
    pub program: OsString,
    pub args: Vec<OsString>,
    pub environment: Environment,
    /// Its working folder, unless that is ours. A relative path of the program starts here.
    pub folder: Option<PathBuf>,
    pub stdin: Input,
    pub stdout: Output,
    pub stderr: Output,
    /// Descriptors that it inherits as 3, 4 and so on, such as listening sockets.
    pub descriptors: Vec<OwnedFd>,
    /// Folders of the control groups that it joins before it runs.
    pub groups: Vec<PathBuf>,
    /// Files and folders that it sees at other paths. Where there are any, the working folder and the program are looked
    /// up in that view.
    pub mounts: Vec<Mount>,
}

/// The standard input of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Our own standard input.
    Inherited,
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
    /// A program that inherits everything from this process.
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
