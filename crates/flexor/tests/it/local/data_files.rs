//! Tests of `flexor data`: generation, conversion and inspection of data files.

mod convert;
mod generate;
mod inspect;

use std::path::PathBuf;

use crate::program::{ProgramOutput, flexor};

/// A folder in which the test runs commands.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `flexor data` to its end, in the folder.
    fn data(&self, args: &[&str]) -> ProgramOutput {
        flexor(&[&["data"], args].concat()).current_dir(self.0.path()).output().unwrap().into()
    }

    /// The output of a command that must succeed.
    fn done(&self, args: &[&str]) -> String {
        let ran = self.data(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        ran.stdout
    }

    /// The JSON output.
    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.data(args).stdout).unwrap()
    }
}
