//! Runs lines of shell as a user in `cargo xtask cluster shell` does.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use flexor_testbed::Cluster;
use tempfile::TempDir;

use crate::program::{bin, root};

/// A terminal in the network of a cluster, with the programs that the pages name.
pub(super) struct Shell<'a> {
    cluster: &'a Cluster,
    programs: TempDir,
    folder: PathBuf,
}

impl<'a> Shell<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        let programs = tempfile::tempdir().unwrap();
        let link = |program: &Path, name: &str| symlink(program, programs.path().join(name)).unwrap();
        link(&cluster.tools().kubectl(), "kubectl");
        for name in ["flexor", "paddlecloud", "paddlectl"] {
            link(&bin(), name);
        }
        if let Some(python) = in_path("python3") {
            link(&python, "python");
        }
        Self { cluster, programs, folder: root() }
    }

    /// `cd` for the lines that follow.
    pub(super) fn enter(&mut self, folder: &str) {
        self.folder = fs::canonicalize(self.folder.join(folder)).unwrap();
    }

    pub(super) fn command(&self, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.cluster.command_in("sh");
        command.args(["-c", line]).current_dir(&self.folder);
        command.env("PATH", format!("{}:{path}", self.programs.path().display()));
        command
    }
}

/// The program that a user of this machine would start by this name.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
