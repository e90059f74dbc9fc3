//! Starts and ends the operator.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flexor_testbed::{Cluster, ClusterProgram};

use tokio::sync::{Mutex, MutexGuard};

use crate::listings::Row;
use crate::program::bin;

/// A test with an operator has a control plane of its own. Several at once would be too slow for their deadlines.
static TURN: Mutex<()> = Mutex::const_new(());

const DEADLINE: Duration = Duration::from_secs(120);

/// Waits for the turn of a test that starts a cluster with an operator.
pub async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// A running operator; dropping it kills it.
pub struct Operator<'a> {
    cluster: &'a Cluster,
    kubeconfig: PathBuf,
    program: Option<ClusterProgram>,
}

impl<'a> Operator<'a> {
    /// Under the account of an overlay that was installed, whose lines name it.
    pub async fn of_overlay(cluster: &'a Cluster, overlay: &Row) -> Self {
        let created = |kind: &str| {
            let mut names = overlay.lists.iter().filter_map(|line| line.strip_prefix(kind)?.strip_suffix(" created"));
            names.next_back().unwrap_or_else(|| panic!("no {kind} in {:?}", overlay.lists)).to_owned()
        };
        Self::start(cluster, &created("namespace/"), &created("serviceaccount/")).await
    }

    /// Under a service account; waits until it serves.
    pub async fn start(cluster: &'a Cluster, namespace: &str, account: &str) -> Self {
        let kubeconfig = cluster.kubeconfig_of(namespace, account).await.unwrap();
        let mut operator = Self { cluster, kubeconfig, program: None };
        operator.restart();
        operator
    }

    /// Kills it if it runs, starts it, and waits until it serves.
    pub fn restart(&mut self) {
        self.kill();
        let args = ["operator", "--http", "127.0.0.1:0", "--image", "flexor:test"];
        self.program = Some(self.cluster.run(&bin(), args, &self.kubeconfig).unwrap());
        let began = Instant::now();
        while !self.log().contains(" serving ") {
            assert!(began.elapsed() < DEADLINE, "the operator does not serve: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn kill(&mut self) {
        if let Some(program) = self.program.take() {
            program.kill().unwrap();
        }
    }

    /// Whether it was refused a request for lack of rights: it has all that it uses.
    fn lacks_rights(&self) -> bool {
        self.log().contains("forbidden: User")
    }

    pub fn log(&self) -> String {
        self.program.as_ref().map(ClusterProgram::log).unwrap_or_default()
    }
}

impl Drop for Operator<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(!self.lacks_rights(), "{}", self.log());
        }
    }
}
