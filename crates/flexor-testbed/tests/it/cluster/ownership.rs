//! Tests that no process and no folder of a cluster outlives its owner, however the owner ends.
//!
//! Each test runs again in a child process. The child owns a cluster and ends in the way of the test; the parent looks
//! for leftovers.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use flexor_testbed::{Cluster, ClusterConfig, Component, NodeGroup, cluster_or_skip};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::child_test;

/// The prefix of the line in which the child names its folder and processes.
const OWNING: &str = "owning ";

const GONE_DEADLINE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn kill_9_leaves_nothing() {
    if child_test::is_child() {
        hold_cluster(one_node()).await;
    }
    let _built = cluster_or_skip!();
    Owner::spawn("kill_9_leaves_nothing").end_by(Signal::SIGKILL);
}

#[tokio::test]
async fn kill_9_leaves_nothing_on_loopback() {
    if child_test::is_child() {
        hold_cluster(one_node().on_loopback()).await;
    }
    let _built = cluster_or_skip!();
    Owner::spawn("kill_9_leaves_nothing_on_loopback").end_by(Signal::SIGKILL);
}

#[tokio::test]
async fn ctrl_c_leaves_nothing() {
    if child_test::is_child() {
        hold_cluster(one_node()).await;
    }
    let _built = cluster_or_skip!();
    Owner::spawn("ctrl_c_leaves_nothing").end_by(Signal::SIGINT);
}

#[tokio::test]
async fn a_panic_leaves_nothing() {
    if child_test::is_child() {
        hold_cluster(one_node()).await;
    }
    let _built = cluster_or_skip!();
    let mut owner = Owner::spawn("a_panic_leaves_nothing");
    // The child panics when its input ends.
    drop(owner.child.stdin.take());
    assert!(!owner.child.wait().unwrap().success());
    owner.await_nothing_left();
}

#[tokio::test]
async fn a_dropped_cluster_on_loopback_leaves_nothing() {
    let cluster = cluster_or_skip!(one_node().on_loopback());
    assert_eq!(cluster.namespace_pid(), None);
    let nodes = cluster.kubectl(["get", "nodes", "-o", "name"]).output().unwrap();
    assert_eq!(String::from_utf8(nodes.stdout).unwrap(), "node/node-0\n");
    let folder = cluster.folder().to_owned();
    drop(cluster);
    assert!(!folder.exists());
    assert_eq!(processes_naming(&folder), Vec::<u32>::new());
}

fn one_node() -> ClusterConfig {
    ClusterConfig::with_nodes([NodeGroup::new("node", 1)])
}

/// The child's part: owns a cluster until its input ends, and then panics; a signal may end it before.
async fn hold_cluster(config: ClusterConfig) -> ! {
    let cluster = Cluster::start(config).await.unwrap();
    let pids = Component::ALL.map(|component| cluster.pid(component).unwrap().to_string());
    // The harness has already written to this line; a new one makes ours readable.
    println!("\n{OWNING}{} {}", pids.join(","), cluster.folder().display());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    panic!("the end of this owner is a panic");
}

/// A child process that owns a cluster.
struct Owner {
    child: Child,
    folder: PathBuf,
    pids: Vec<u32>,
}

impl Owner {
    fn spawn(test: &str) -> Self {
        let mut child = child_test::command(&format!("cluster::ownership::{test}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.map(Result::unwrap).find(|line| line.starts_with(OWNING)).expect("the child got a cluster");
        let (pids, folder) = line[OWNING.len()..].split_once(' ').unwrap();
        let owner =
            Self { child, folder: folder.into(), pids: pids.split(',').map(|pid| pid.parse().unwrap()).collect() };
        assert!(owner.folder.is_dir());
        assert!(owner.pids.iter().all(|pid| Path::new(&format!("/proc/{pid}")).exists()));
        owner
    }

    fn end_by(mut self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        self.child.wait().unwrap();
        self.await_nothing_left();
    }

    fn await_nothing_left(&self) {
        let start = Instant::now();
        loop {
            let left = processes_naming(&self.folder);
            let alive: Vec<&u32> = self.pids.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
            if left.is_empty() && alive.is_empty() && !self.folder.exists() {
                return;
            }
            assert!(
                start.elapsed() < GONE_DEADLINE,
                "left after {GONE_DEADLINE:?}: processes {left:?} {alive:?}, folder {}",
                self.folder.exists()
            );
            // A process that is no child cannot be waited for, only polled.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// All processes that have the folder in their command line: every component and the keeper do.
fn processes_naming(folder: &Path) -> Vec<u32> {
    let folder = folder.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            *pid != std::process::id() && String::from_utf8_lossy(&line).contains(folder)
        })
        .collect()
}
