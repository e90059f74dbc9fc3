//! A job of stock torchruns at our master that trains the example, for tests that inject faults.

use std::{path::Path, time::Duration};

use flexor_testbed::{
    Torch,
    flexor_processes::{JobNode, Master, MasterConfig, RunStatus},
    torchrun::{Agent, AgentConfig, ProbeEvent, ProbeEventKind, Workers},
};

use tempfile::TempDir;

use crate::program::{bin, root};

/// How long anything may take: torch is imported twice per node, and other tests run beside this one.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The program of the workers, from the project's root.
pub const EXAMPLE: &str = "examples/torch-mnist/train.py";

/// The name of every job here.
const NAME: &str = "peers";

/// A running job. Its first nodes have ranks in the order they were started, from 0.
pub struct Job {
    torch: Torch,
    // Before the master, so that the end of the nodes is not the loss of their store.
    nodes: Vec<JobNode>,
    pub master: Master,
    started: usize,
    work: Work,
    /// The disk that the nodes share, for the checkpoint.
    disk: TempDir,
}

/// The configuration of a node's workers, by the number of nodes that were started before it.
pub type Work = fn(config: AgentConfig, number: usize) -> AgentConfig;

impl Job {
    /// A job of 2 to 3 nodes, with `count` of them in its world and making steps.
    pub fn start(torch: Torch, count: usize) -> Job {
        // With fewer than three no other node joins, and waiting half a minute for one would test nothing.
        let config = if count < 3 { master("2:3").last_call(1) } else { master("2:3") };
        Job::start_with(torch, count, config, |config, _| config)
    }

    /// A job at this master, with `count` nodes in its world that do this work and make steps.
    pub fn start_with(torch: Torch, count: usize, master: MasterConfig, work: Work) -> Job {
        let master = Master::start(&torch, master).unwrap();
        let mut job = Job { torch, nodes: Vec::new(), master, started: 0, work, disk: tempfile::tempdir().unwrap() };
        for _ in 0..count {
            job.add();
        }
        for agent in job.agents() {
            let stepped = |event: &ProbeEvent| event.kind == ProbeEventKind::Step && event.world as usize == count;
            agent.await_event(DEADLINE, stepped).unwrap();
        }
        job
    }

    /// Starts one more node.
    pub fn add(&mut self) {
        // The master orders a first world by the names of its pods.
        let config = AgentConfig::new(format!("node-{}", self.started));
        let config = config.env("PET_LOCAL_ADDR", format!("127.1.1.{}", 10 + self.started));
        let config = (self.work)(training(config, self.disk.path()), self.started);
        let node = JobNode::start(&self.torch, &self.master, config).unwrap();
        self.nodes.push(node);
        self.started += 1;
    }

    /// Removes a node from those that waits cover.
    pub fn take(&mut self, position: usize) -> JobNode {
        self.nodes.remove(position)
    }

    /// Adds a removed node again.
    pub fn put_back(&mut self, node: JobNode) {
        self.nodes.push(node);
    }

    /// The torchruns of its nodes.
    pub fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.nodes.iter().map(JobNode::agent)
    }

    /// All workers, for a comparison after a fault.
    pub fn workers(&self) -> Workers {
        Workers::of(self.agents())
    }

    /// Waits until all nodes make steps in a world of `size` after `old`; they were started once for that, and torchrun
    /// charged at most one restart. Gives the first step of each.
    pub fn await_one_new_world(&self, size: usize, old: &Workers) -> Vec<ProbeEvent> {
        let steps = old.await_successors(self.agents(), size, ProbeEventKind::Step, DEADLINE).unwrap();
        let mut ranks: Vec<_> = steps.iter().map(|event| event.rank as usize).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, (0..size).collect::<Vec<_>>(), "ranks are a permutation");
        for agent in self.agents() {
            let starts = old.started_since(agent);
            assert_eq!(starts.len(), 1, "{} was started once for the change: {starts:?}", agent.name());
            let before = agent.events().iter().rev().find(|event| event.at <= old.since()).map_or(0, |e| e.restart);
            let charged = starts[0].restart - before;
            assert!(charged <= 1, "torchrun charged {} with {charged} restarts", agent.name());
        }
        steps
    }

    /// Whether the workers are still those.
    pub fn assert_nobody_restarted(&self, old: &Workers) {
        for agent in self.agents() {
            assert_eq!(old.started_since(agent), [], "{} goes on with the worker it had", agent.name());
            assert_eq!(agent.exit_code(), None, "{} runs", agent.name());
        }
    }

    /// Waits until all nodes have made this many more steps.
    pub fn await_more_steps(&self, steps: u64) {
        for agent in self.agents() {
            let last = agent.events().last().map_or(0, |event| event.step);
            agent.await_event(DEADLINE, |event| event.step >= last + steps).unwrap();
        }
    }

    /// The state of the run.
    pub fn status(&self) -> RunStatus {
        self.master.run_status().unwrap().unwrap()
    }

    /// Waits until the master has made a decision with this reason.
    pub fn await_decision(&self, reason: &str) {
        self.await_status(reason, |job| {
            let decisions = job.master.decisions().unwrap();
            decisions.iter().any(|decision| decision.reason.as_deref() == Some(reason))
        });
    }

    /// Waits until a condition holds at the master; `what` completes "waited for".
    pub fn await_status(&self, what: &str, holds: impl Fn(&Job) -> bool) {
        let begun = std::time::Instant::now();
        while !holds(self) {
            let status = self.master.run_status();
            assert!(begun.elapsed() < DEADLINE, "waited for {what}; {status:?}; the log\n{}", self.master.log());
            // A master has no watch that a test without gRPC could hold.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Lets the workers train until they are ended, from the checkpoint on that disk.
pub fn training(config: AgentConfig, disk: &Path) -> AgentConfig {
    let endlessly = ["--epochs", "1000000", "--checkpoint-every", "5", "--sleep", "0.2", "--checkpoint"];
    config.observed(root().join(EXAMPLE)).args(endlessly).args([disk.join("digits.pt")])
}

/// A master of a job with this number of nodes (`MIN:MAX`).
pub fn master(nodes: &str) -> MasterConfig {
    MasterConfig::new(bin(), NAME, nodes)
}
