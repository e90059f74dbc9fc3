//! Programs that write down what the tests want to know.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use flexor_agent::processes::{Environment, EnvironmentChanges, Output, Processes, Program, Shim};
use tempfile::TempDir;

use crate::waiting::await_condition;

/// Nobody, through the shim of the test launcher.
pub(crate) fn nobody() -> Processes {
    Processes::new(Shim::new(env!("CARGO_BIN_EXE_agent-test-launcher"), ["shim"])).unwrap()
}

/// A folder for the notes of one program, `$NOTES` for it.
pub(crate) struct Notes(TempDir);

impl Notes {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A script of the shell.
    pub(crate) fn sh(&self, script: &str) -> Program {
        self.taken_by(Program::new("sh", ["-c", script]))
    }

    /// A script of Python.
    pub(crate) fn python(&self, script: &str) -> Program {
        self.taken_by(Program::new("python3", ["-c", script]))
    }

    /// The line that was written to `$NOTES/<name>`, as soon as it is there.
    pub(crate) fn line(&self, name: &str) -> String {
        await_condition(&format!("note {name}"), || self.text(name)?.strip_suffix('\n').map(str::to_owned))
    }

    /// The process id that was written down.
    pub(crate) fn pid(&self, name: &str) -> i32 {
        self.line(name).parse().unwrap()
    }

    /// What is in `$NOTES/<name>`, if it is there.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.file(name)).ok()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A file for a program to write its output to.
    pub(crate) fn output(&self, name: &str) -> Output {
        Output::File(fs::File::create(self.file(name)).unwrap())
    }

    fn taken_by(&self, program: Program) -> Program {
        let mut environment = EnvironmentChanges::default();
        environment.set("NOTES", self.path());
        Program { environment: Environment::Inherited(environment), ..program }
    }
}

/// An environment of these variables alone.
pub(crate) fn exactly(variables: &[(&str, &str)]) -> Environment {
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Environment::Exact(variables.collect::<BTreeMap<_, _>>())
}
