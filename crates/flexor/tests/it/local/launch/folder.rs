//! The working folder of the launchers of a test, through which the test and its programs exchange files.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::faults::deadline::eventually;

/// A part of a script: waits for [`Folder::let_go`]. It gives up after a while, so that no process outlives a failed
/// test.
pub const WAIT: &str = "n=0; while [ ! -e go ] && [ $n -lt 1500 ]; do sleep 0.1; n=$((n+1)); done";

pub struct Folder(TempDir);

impl Folder {
    /// An empty one.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Lets every program go on that waits, or will.
    pub fn let_go(&self) {
        fs::write(self.path().join("go"), "").unwrap();
    }

    /// The content of a file; empty where there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// The complete lines of a file, in order.
    pub fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
    }

    /// The lines of a file once there are this many.
    pub fn await_lines(&self, name: &str, count: usize) -> Vec<String> {
        eventually(&format!("{count} lines in {name}"), || Some(self.lines(name)).filter(|lines| lines.len() >= count))
    }

    /// Everything below, as paths from here, sorted.
    pub fn tree(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path.clone());
                }
                found.push(path.strip_prefix(self.path()).unwrap().to_owned());
            }
        }
        found.sort();
        found
    }
}
