//! Programs that write notes for the tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use flexor_agent::processes::{Environment, EnvironmentChanges, Output, Processes, Program, Shim};
use tempfile::TempDir;

use crate::await_condition::await_condition;

/// An empty set of programs, with the shim of the test launcher.
pub(crate) fn no_processes() -> Processes {
    Processes::new(Shim::new(env!("CARGO_BIN_EXE_agent-test-launcher"), ["shim"])).unwrap()
}

/// The folder for the notes of one program, which finds it as `$NOTES`.
pub(crate) struct Notes(TempDir);

impl Notes {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A shell script.
    pub(crate) fn sh(&self, script: &str) -> Program {
        self.with_notes(Program::new("sh", ["-c", script]))
    }

    /// A Python script.
    pub(crate) fn python(&self, script: &str) -> Program {
        self.with_notes(Program::new("python3", ["-c", script]))
    }

    /// Waits for the line in `$NOTES/<name>`.
    pub(crate) fn line(&self, name: &str) -> String {
        await_condition(&format!("note {name}"), || self.text(name)?.strip_suffix('\n').map(str::to_owned))
    }

    /// Waits for the process id in `$NOTES/<name>`.
    pub(crate) fn pid(&self, name: &str) -> i32 {
        self.line(name).parse().unwrap()
    }

    /// The content of `$NOTES/<name>`, if it exists.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.file(name)).ok()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A file for a program's output.
    pub(crate) fn output(&self, name: &str) -> Output {
        Output::File(fs::File::create(self.file(name)).unwrap())
    }

    fn with_notes(&self, program: Program) -> Program {
        let mut environment = EnvironmentChanges::default();
        environment.set("NOTES", self.path());
        Program { environment: Environment::Inherited(environment), ..program }
    }
}

/// An environment of exactly these variables.
pub(crate) fn exactly(variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Environment::Exact(variables.collect::<BTreeMap<_, _>>())
}
