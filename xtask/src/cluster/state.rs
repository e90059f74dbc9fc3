//! What is written down about the cluster of `cargo xtask cluster`, and where.
//!
//! The files lie in the cache folder, next to the built tools: the state itself, a lock that the holder holds as long
//! as it lives (the kernel takes it away however the holder ended), and the holder's log.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flexor_testbed::Cluster;
use serde::{Deserialize, Serialize};

/// The files of the one cluster.
#[derive(Debug, Clone)]
pub(super) struct ClusterFiles {
    folder: PathBuf,
}

/// How to reach the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClusterState {
    /// The administrator's kubeconfig.
    pub(super) kubeconfig: PathBuf,
    /// The cluster's own folder.
    pub(super) folder: PathBuf,
    /// The folder of its kubectl.
    pub(super) kubectl_dir: PathBuf,
    /// As root, a process in the cluster's namespaces.
    pub(super) namespace_pid: Option<u32>,
}

impl ClusterFiles {
    /// Finds the folder and makes sure that it exists.
    pub(super) fn locate() -> Result<Self> {
        Self::in_folder(&flexor_testbed::cache_dir()?.join("clusters"))
    }

    fn in_folder(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// The state; the cluster lives as long as this file does.
    pub(super) fn state(&self) -> PathBuf {
        self.folder.join("default.json")
    }

    /// The log of the process that holds the cluster.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("default.log")
    }

    /// The lock; not held yet.
    pub(super) fn lock_file(&self) -> Result<File> {
        let path = self.folder.join("default.lock");
        File::create(&path).with_context(|| format!("cannot make {}", path.display()))
    }

    /// Whether a living process holds the cluster.
    pub(super) fn is_held(&self) -> Result<bool> {
        match self.lock_file()?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error).context("cannot ask for the lock of the cluster"),
        }
    }

    /// The state of the cluster that is up.
    pub(super) fn read(&self) -> Result<ClusterState> {
        let text = fs::read(self.state()).context("the cluster is still starting; try again in a few seconds")?;
        serde_json::from_slice(&text).with_context(|| format!("cannot read {}", self.state().display()))
    }

    /// Writes the state at once, never half of it.
    pub(super) fn write(&self, state: &ClusterState) -> Result<()> {
        let unfinished = self.folder.join("default.json.unfinished");
        fs::write(&unfinished, serde_json::to_vec_pretty(state)?)?;
        fs::rename(&unfinished, self.state()).with_context(|| format!("cannot write {}", self.state().display()))
    }
}

impl ClusterState {
    /// How to reach `cluster`.
    pub(super) fn of(cluster: &Cluster) -> Self {
        Self {
            kubeconfig: cluster.kubeconfig().to_owned(),
            folder: cluster.folder().to_owned(),
            kubectl_dir: cluster.tools().kubectl_dir().to_owned(),
            namespace_pid: cluster.namespace_pid(),
        }
    }

    /// The environment variables of a shell for the cluster.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut path = self.kubectl_dir.clone().into_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        vec![
            ("KUBECONFIG", self.kubeconfig.clone().into()),
            ("KUBECACHEDIR", self.folder.join("kubectl-cache").into()),
            ("PATH", path),
        ]
    }

    /// Lines for `eval` that set up the shell for the cluster.
    pub(super) fn shell_lines(&self) -> String {
        let kubectl_dir = quoted(&self.kubectl_dir);
        let mut lines = format!(
            "export KUBECONFIG={}\nexport KUBECACHEDIR={}\nexport PATH={kubectl_dir}:\"$PATH\"\n",
            quoted(&self.kubeconfig),
            quoted(&self.folder.join("kubectl-cache")),
        );
        if let Some(pid) = self.namespace_pid {
            let enter = format!("nsenter --target {pid} --net --");
            lines += &format!(
                "# The cluster has a network of its own; a command gets into it by: {enter} COMMAND\n\
                 kubectl() {{ {enter} {kubectl_dir}/kubectl \"$@\"; }}\n"
            );
        }
        lines
    }
}

/// The path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(namespace_pid: Option<u32>) -> ClusterState {
        ClusterState {
            kubeconfig: "/tmp/it's/kubeconfig".into(),
            folder: "/tmp/it's".into(),
            kubectl_dir: "/tools".into(),
            namespace_pid,
        }
    }

    #[test]
    fn a_shell_understands_the_lines() {
        let script = format!("{}printf %s \"$KUBECONFIG\"", state(None).shell_lines());
        let answer = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(answer.stdout).unwrap(), "/tmp/it's/kubeconfig");
    }

    #[test]
    fn as_root_the_lines_tell_how_to_get_in() {
        assert!(state(Some(42)).shell_lines().contains("nsenter --target 42 --net -- COMMAND"));
        assert!(!state(None).shell_lines().contains("nsenter"));
    }

    #[test]
    fn the_lock_tells_whether_someone_holds_the_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let files = ClusterFiles::in_folder(folder.path()).unwrap();
        assert!(!files.is_held().unwrap());
        let lock = files.lock_file().unwrap();
        lock.try_lock().unwrap();
        assert!(files.is_held().unwrap());
        drop(lock);
        assert!(!files.is_held().unwrap());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let files = ClusterFiles::in_folder(folder.path()).unwrap();
        files.write(&state(Some(7))).unwrap();
        assert_eq!(files.read().unwrap(), state(Some(7)));
    }
}
