//! Starts and ends the operator.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use flexor_testbed::{Cluster, ClusterProgram};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::cluster::installed::succeed;
use crate::listings::Row;
use crate::program::bin;

/// A test with an operator has a control plane of its own. More than two at once would be too slow for their deadlines.
static TURNS: Semaphore = Semaphore::const_new(2);

const DEADLINE: Duration = Duration::from_secs(120);
/// An operator that did nothing for so long has nothing to do.
const QUIET: Duration = Duration::from_secs(3);
const ARGS: [&str; 4] = ["operator", "--http", "127.0.0.1:0", "--image"];
const IMAGE: &str = "flexor:test";

/// Whether there are masters that the operator can dial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Masters {
    /// Nothing runs in the pods of fake nodes.
    Absent,
    /// The test plays them.
    Played,
}

pub fn args(image: &str, masters: Masters) -> impl Iterator<Item = String> {
    let feeds = (masters == Masters::Absent).then_some("--no-master-feeds");
    ARGS.into_iter().chain([image]).chain(feeds).map(str::to_owned)
}

/// Waits for the turn of a test that starts a cluster with an operator.
pub async fn turn() -> SemaphorePermit<'static> {
    TURNS.acquire().await.expect("the semaphore is never closed")
}

/// A running operator; dropping it kills it.
pub struct Operator<'a> {
    cluster: &'a Cluster,
    kubeconfig: PathBuf,
    program: Option<ClusterProgram>,
    /// The image that it gives to jobs from its next start on.
    pub image: &'static str,
    /// Whether it dials masters, from its next start on.
    pub masters: Masters,
    /// The API server forgets for a moment who has which rights when it starts.
    pub may_be_refused: bool,
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
        Self::start_with(cluster, cluster.kubeconfig_of(namespace, account).await.unwrap())
    }

    /// With a kubeconfig; waits until it serves.
    pub fn start_with(cluster: &'a Cluster, kubeconfig: PathBuf) -> Self {
        let (image, masters) = (IMAGE, Masters::Absent);
        let mut operator = Self { cluster, kubeconfig, program: None, image, masters, may_be_refused: false };
        operator.restart();
        operator
    }

    /// Starts it again whenever it has aborted, with an abort after so many actions, until it has nothing left to do for
    /// a while. Returns how often it was started.
    pub fn run_in_short_lives(&mut self, actions: u64) -> u32 {
        self.kill();
        let abort = ["--abort-after".to_owned(), actions.to_string()];
        let began = Instant::now();
        let mut lives = 0;
        loop {
            let args = args(self.image, self.masters).chain(abort.clone());
            let mut program = self.cluster.run(&bin(), args, &self.kubeconfig).unwrap();
            lives += 1;
            let born = Instant::now();
            while program.ended().is_none() {
                if born.elapsed() > QUIET {
                    program.kill().unwrap();
                    return lives;
                }
                assert!(began.elapsed() < DEADLINE, "it does not come to rest after {lives} lives: {}", program.log());
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Starts one that must refuse to serve. Returns what it said.
    pub async fn refused(cluster: &'a Cluster, namespace: &str, account: &str) -> String {
        let kubeconfig = cluster.kubeconfig_of(namespace, account).await.unwrap();
        let mut program = cluster.run(&bin(), args(IMAGE, Masters::Absent), &kubeconfig).unwrap();
        let began = Instant::now();
        loop {
            if let Some(status) = program.ended() {
                assert!(!status.success(), "{}", program.log());
                return program.log();
            }
            assert!(began.elapsed() < DEADLINE, "it has not ended: {}", program.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills it if it runs, starts it, and waits until it serves.
    pub fn restart(&mut self) {
        self.kill();
        self.program = Some(self.cluster.run(&bin(), args(self.image, self.masters), &self.kubeconfig).unwrap());
        let began = Instant::now();
        while !self.log().contains(" serving ") {
            assert!(began.elapsed() < DEADLINE, "the operator does not serve: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Asks it to end, as Kubernetes does, and waits until it has. Returns its exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        let program = self.program.as_mut().expect("it runs");
        let pid = program.pid().expect("it runs").to_string();
        succeed(Command::new("kill").args(["-TERM", &pid]));
        let began = Instant::now();
        loop {
            if let Some(status) = program.ended() {
                println!("{}", program.log());
                self.program = None;
                return status.code();
            }
            assert!(began.elapsed() < DEADLINE, "it does not end: {}", program.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it answers to a GET of this path: the status line, and the body.
    pub async fn http(&self, path: &str) -> (String, String) {
        let log = self.log();
        let address = log.split("http=").nth(1).and_then(|rest| rest.split_whitespace().next());
        let address = address.unwrap_or_else(|| panic!("no address in {log}")).parse().unwrap();
        let mut stream = self.cluster.connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        (head.lines().next().unwrap().to_owned(), body.to_owned())
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
        if !std::thread::panicking() && !self.may_be_refused {
            assert!(!self.lacks_rights(), "{}", self.log());
        }
    }
}
