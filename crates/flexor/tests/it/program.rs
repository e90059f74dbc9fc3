//! Starts the `flexor` program as a user does.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The root of the repository, where users try the examples.
///
/// Found when the test runs: a target folder that several checkouts share may hold a test program that was built from
/// another one.
pub fn root() -> PathBuf {
    let package = env::var("CARGO_MANIFEST_DIR").expect("cargo tells tests where their package is");
    Path::new(&package).join("../..").canonicalize().unwrap()
}

/// The program that is tested.
pub fn bin() -> PathBuf {
    env::var_os(flexor_model::env::BIN.name).unwrap_or_else(|| env!("CARGO_BIN_EXE_flexor").into()).into()
}

/// `flexor` with arguments, in the root of the repository.
pub fn flexor(args: &[&str]) -> Command {
    let mut command = Command::new(bin());
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

pub struct ProgramOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `flexor` to its end.
pub fn run(args: &[&str]) -> ProgramOutput {
    flexor(args).output().unwrap().into()
}

/// Runs `flexor` with an input.
pub fn run_with_input(args: &[&str], input: &[u8]) -> ProgramOutput {
    feed(flexor(args), input)
}

/// Runs a command to its end with an input.
pub fn feed(mut command: Command, input: &[u8]) -> ProgramOutput {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().into()
}

impl From<Output> for ProgramOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
