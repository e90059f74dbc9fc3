//! A cluster with real nodes that has every image of our manifests, and a shell in it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use flexor_testbed::images::{self, TORCH_FOLDER};
use flexor_testbed::{Cluster, ClusterConfig, Torch};
use tokio::sync::{Mutex, MutexGuard};

use crate::program::{bin, root};

/// A cluster with real nodes keeps both cores of a small machine busy.
static TURN: Mutex<()> = Mutex::const_new(());

/// Waits for the turn of a test that starts a cluster.
pub async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// Real nodes on which the containers of the torch image find torch.
pub fn config(nodes: usize, torch: &Torch) -> ClusterConfig {
    let config = ClusterConfig::with_nodes([]).and_real_nodes(nodes);
    match images::torch_packages(torch) {
        Some(packages) => config.with_node_mount(packages, TORCH_FOLDER),
        None => config,
    }
}

/// Brings all images of the tutorials to the nodes.
pub fn add_images(cluster: &Cluster) {
    for (name, image) in images::of_tutorials(&bin()).unwrap() {
        cluster.add_image(&image, name).unwrap();
    }
}

/// Runs lines of shell as a user in `cargo xtask cluster shell` does, from the root of the repository.
pub struct Shell<'a> {
    cluster: &'a Cluster,
    programs: tempfile::TempDir,
    folder: PathBuf,
}

impl<'a> Shell<'a> {
    pub fn new(cluster: &'a Cluster) -> Self {
        let programs = tempfile::tempdir().unwrap();
        symlink(cluster.tools().kubectl(), programs.path().join("kubectl")).unwrap();
        symlink(bin(), programs.path().join("flexor")).unwrap();
        Self { cluster, programs, folder: root() }
    }

    /// `cd` for the lines that follow.
    pub fn enter(&mut self, folder: &str) {
        self.folder = fs::canonicalize(self.folder.join(folder)).unwrap();
    }

    pub fn command(&self, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.cluster.command_in("sh");
        command.args(["-c", line]).current_dir(&self.folder);
        command.env("PATH", format!("{}:{path}", self.programs.path().display()));
        command
    }
}
