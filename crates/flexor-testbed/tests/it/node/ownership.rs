//! Tests that a cluster with real nodes leaves nothing when its owner is killed: no process, mount, cgroup or folder.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use flexor_testbed::{ClusterConfig, nodes_or_skip};

use super::pods::{pod, run};
use crate::child_test;

/// The prefix of the line in which the child names its cluster's namespace and folder.
const OWNING: &str = "owning ";

const GONE_DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn kill_9_leaves_nothing() {
    if child_test::is_child() {
        hold_cluster().await;
        return;
    }
    let _possible = nodes_or_skip!();
    let mut child = child_test::command("node::ownership::kill_9_leaves_nothing")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.map(Result::unwrap).find(|line| line.starts_with(OWNING)).expect("the child got a cluster");
    let (namespace, folder) = line[OWNING.len()..].split_once(' ').unwrap();
    let cluster = Remains { namespace: namespace.into(), folder: folder.into() };
    assert!(cluster.processes().len() > 10, "the control plane, a node and its containers: {cluster:?}");
    assert!(!cluster.cgroups().is_empty(), "a kubelet has cgroups: {cluster:?}");

    child.kill().unwrap();
    child.wait().unwrap();
    let start = Instant::now();
    while !cluster.is_gone() {
        let (processes, cgroups) = (cluster.processes(), cluster.cgroups());
        assert!(
            start.elapsed() < GONE_DEADLINE,
            "left after {GONE_DEADLINE:?}: processes {processes:?}, cgroups {cgroups:?}, folder {}",
            cluster.folder.exists()
        );
        // A process that is no child cannot be waited for, only polled.
        std::thread::sleep(Duration::from_millis(20));
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(folder), "{mounts}");
}

/// The child's part: owns a cluster with a running container until it is killed.
async fn hold_cluster() {
    let cluster = nodes_or_skip!(ClusterConfig::with_nodes([]).and_real_nodes(1));
    let namespace = cluster.namespace("owned").await.unwrap();
    run(&namespace, pod("held", "exec sleep 1000")).await;
    let pid = cluster.namespace_pid().unwrap();
    let pid_namespace = fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap();
    // The harness has already written to this line; a new one makes ours readable.
    println!("\n{OWNING}{} {}", pid_namespace.display(), cluster.folder().display());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// What a cluster may leave behind.
#[derive(Debug)]
struct Remains {
    /// The process-id namespace, as a link in `/proc` names it.
    namespace: PathBuf,
    folder: PathBuf,
}

impl Remains {
    fn is_gone(&self) -> bool {
        !self.folder.exists() && self.processes().is_empty() && self.cgroups().is_empty()
    }

    /// All processes in the cluster's process-id namespace, and those outside that name its folder.
    fn processes(&self) -> Vec<u32> {
        let folder = self.folder.to_str().unwrap();
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| {
                let inside = fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|found| found == self.namespace);
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                inside || String::from_utf8_lossy(&line).contains(folder)
            })
            .collect()
    }

    /// The cluster's cgroup in every hierarchy.
    fn cgroups(&self) -> Vec<PathBuf> {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path());
        let name = self.folder.file_name().unwrap();
        hierarchies.chain([root.into()]).map(|hierarchy| hierarchy.join(name)).filter(|group| group.exists()).collect()
    }
}
