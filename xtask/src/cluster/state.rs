//! The state file of a cluster of `cargo xtask cluster`, and its path.
//!
//! The files are in the cache folder, next to the built tools: the state itself, a lock that the holder holds as long
//! as it lives (the kernel releases it however the holder ended), and the holder's log. Each file name begins with the
//! name of its cluster.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use flexor_testbed::{Cluster, RealNode};
use serde::{Deserialize, Serialize};

use super::name::ClusterName;
use crate::tree::project_root;

/// The files of one cluster.
#[derive(Debug, Clone)]
pub(super) struct ClusterFiles {
    folder: PathBuf,
    name: ClusterName,
}

/// How to reach the cluster, and where it came from.
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
    /// The nodes that have containers.
    pub(super) real_nodes: Vec<RealNodeState>,
    /// The process that holds it: shown to people, never signalled.
    holder_pid: u32,
    /// The checkout that it was started from.
    checkout: PathBuf,
    /// When it was ready.
    started: SystemTime,
}

/// A real node, for commands that reach into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RealNodeState {
    pub(super) name: String,
    /// A process in the node's namespaces.
    pub(super) namespace_pid: u32,
}

impl ClusterFiles {
    /// Finds the folder and makes sure that it exists.
    pub(super) fn locate(name: ClusterName) -> Result<Self> {
        Self::in_folder(&flexor_testbed::cache_dir()?.join("clusters"), name)
    }

    fn in_folder(folder: &Path, name: ClusterName) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder: folder.to_owned(), name })
    }

    /// The cluster whose files these are.
    pub(super) fn name(&self) -> &ClusterName {
        &self.name
    }

    /// Which other clusters are up, in words.
    pub(super) fn others_up(&self) -> Result<String> {
        let mut up = Vec::new();
        for entry in fs::read_dir(&self.folder).with_context(|| format!("cannot list {}", self.folder.display()))? {
            let file = entry?.file_name();
            let stem = file.to_str().and_then(|file| file.strip_suffix(".lock"));
            if let Some(name) = stem.and_then(|stem| stem.parse().ok())
                && Self::in_folder(&self.folder, name)?.is_held()?
            {
                up.extend(stem.map(str::to_owned));
            }
        }
        up.sort_unstable();
        Ok(if up.is_empty() { "no other is either".to_owned() } else { format!("up are: {}", up.join(", ")) })
    }

    /// The state; the cluster lives as long as this file does.
    pub(super) fn state(&self) -> PathBuf {
        self.file("json")
    }

    /// The log of the process that holds the cluster.
    pub(super) fn log(&self) -> PathBuf {
        self.file("log")
    }

    /// The lock; not held yet.
    pub(super) fn lock_file(&self) -> Result<File> {
        let path = self.file("lock");
        File::create(&path).with_context(|| format!("cannot make {}", path.display()))
    }

    /// Whether a living process holds the cluster.
    pub(super) fn is_held(&self) -> Result<bool> {
        // Asking about a cluster that never was leaves no file behind.
        if !self.file("lock").exists() {
            return Ok(false);
        }
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
        let unfinished = self.file("json.unfinished");
        fs::write(&unfinished, serde_json::to_vec_pretty(state)?)?;
        fs::rename(&unfinished, self.state()).with_context(|| format!("cannot write {}", self.state().display()))
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }
}

impl ClusterState {
    /// The addresses of `cluster`, which this process holds.
    pub(super) fn of(cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            kubeconfig: cluster.kubeconfig().to_owned(),
            folder: cluster.folder().to_owned(),
            kubectl_dir: cluster.tools().kubectl_dir().to_owned(),
            namespace_pid: cluster.namespace_pid(),
            real_nodes: cluster.real_nodes().iter().filter_map(RealNodeState::of).collect(),
            holder_pid: std::process::id(),
            checkout: project_root()?,
            started: SystemTime::now(),
        })
    }

    /// Its age and its owner.
    pub(super) fn origin(&self) -> String {
        let (checkout, pid) = (self.checkout.display(), self.holder_pid);
        // A clock that was set back makes it as young as can be.
        let age = in_words(self.started.elapsed().unwrap_or_default());
        format!("for {age}, started from {checkout} and held by process {pid}")
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

impl RealNodeState {
    fn of(node: &RealNode) -> Option<Self> {
        Some(Self { name: node.name().to_owned(), namespace_pid: node.namespace_pid()? })
    }
}

/// A duration in words.
fn in_words(age: Duration) -> String {
    match age.as_secs() {
        seconds @ ..120 => format!("{seconds} seconds"),
        seconds @ ..7200 => format!("{} minutes", seconds / 60),
        seconds => format!("{} hours", seconds / 3600),
    }
}

/// The path, quoted for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
impl ClusterState {
    /// Of a cluster that never was.
    pub(super) fn example() -> Self {
        Self {
            kubeconfig: "/tmp/it's/kubeconfig".into(),
            folder: "/tmp/it's".into(),
            kubectl_dir: "/tools".into(),
            namespace_pid: None,
            real_nodes: Vec::new(),
            holder_pid: 4711,
            checkout: "/src/flexor".into(),
            started: SystemTime::UNIX_EPOCH,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(namespace_pid: Option<u32>) -> ClusterState {
        ClusterState { namespace_pid, ..ClusterState::example() }
    }

    fn files_in(folder: &Path, name: &str) -> ClusterFiles {
        ClusterFiles::in_folder(folder, name.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_origin_names_age_checkout_and_holder() {
        let origin = state(None).origin();
        assert!(origin.starts_with("for "), "{origin}");
        assert!(origin.ends_with(" hours, started from /src/flexor and held by process 4711"), "{origin}");
        let words = [5, 119, 120, 7199, 7200].map(|seconds| in_words(Duration::from_secs(seconds)));
        assert_eq!(words, ["5 seconds", "119 seconds", "2 minutes", "119 minutes", "2 hours"]);
    }

    #[test]
    fn clusters_of_two_names_share_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (files_in(folder.path(), "a"), files_in(folder.path(), "b"));
        a.write(&state(None)).unwrap();
        let lock = a.lock_file().unwrap();
        lock.try_lock().unwrap();
        assert!(a.is_held().unwrap() && !b.is_held().unwrap());
        assert!(!b.state().exists());
        assert_eq!(b.others_up().unwrap(), "up are: a");
        drop(lock);
        assert_eq!(b.others_up().unwrap(), "no other is either");
    }

    #[test]
    fn the_printed_lines_are_valid_shell() {
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
        let files = files_in(folder.path(), "a");
        assert!(!files.is_held().unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "asking leaves no file");
        let lock = files.lock_file().unwrap();
        lock.try_lock().unwrap();
        assert!(files.is_held().unwrap());
        drop(lock);
        assert!(!files.is_held().unwrap());
    }

    #[test]
    fn a_written_state_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let files = files_in(folder.path(), "a");
        let node = RealNodeState { name: "node-1".to_owned(), namespace_pid: 8 };
        let written = ClusterState { real_nodes: vec![node], ..state(Some(7)) };
        files.write(&written).unwrap();
        assert_eq!(files.read().unwrap(), written);
    }
}
