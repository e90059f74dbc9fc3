//! The example on several nodes, and the step log of each.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use flexor_testbed::Torch;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;

use crate::local::{
    faults::deadline::eventually_or_explain,
    launch::{
        folder::Folder,
        job::Job,
        launcher::{Launcher, LauncherOutput, launch},
    },
};
use crate::program::root;

const EXAMPLE: &str = "examples/torch-survive/train.py";

/// The number of steps: with [`SLEEP`] long enough that a killed worker is back before the end.
pub const STEPS: u64 = 250;

/// Seconds between two steps.
const SLEEP: &str = "0.1";

/// How far a loss may be from that of an undisturbed run, as a part of it: sums over 2 and over 3 processes round otherwise.
const TOLERANCE: f64 = 1e-3;

/// One step of one process.
#[derive(Debug, Clone, Deserialize)]
pub struct Step {
    pub step: u64,
    pub loss: f64,
    pub rank: usize,
    pub world: usize,
    pub pid: i32,
}

/// A job that trains the example.
pub struct Training {
    torch: Torch,
    pub nodes: Vec<Node>,
    pub job: Job,
    started: usize,
}

/// One of its nodes.
pub struct Node {
    launcher: Option<Launcher>,
    log: PathBuf,
    ended: Option<LauncherOutput>,
}

impl Training {
    /// A job of 2 to 3 nodes that starts with this many.
    pub fn start(torch: Torch, count: usize) -> Self {
        let mut training = Self { torch, nodes: Vec::new(), job: Job::start("2:3", "0"), started: 0 };
        // Otherwise two nodes would wait for a third.
        training.job.expect(count);
        (0..count).for_each(|_| training.start_node());
        training
    }

    /// One more node.
    pub fn add(&mut self) {
        self.job.expect(self.nodes.len() + 1);
        self.start_node();
    }

    /// Waits until all nodes have made this step.
    pub fn await_step(&self, step: u64) {
        for node in &self.nodes {
            let made = || node.steps().iter().any(|made| made.step >= step).then_some(());
            eventually_or_explain(&format!("step {step}"), made, || node.printed());
        }
    }

    /// The index of the node whose process has this rank.
    pub fn position_of(&self, rank: usize) -> usize {
        self.nodes.iter().position(|node| node.last_step().rank == rank).unwrap()
    }

    /// Waits until all nodes have ended well.
    pub fn end(&mut self) {
        for node in &mut self.nodes {
            node.ended = node.launcher.take().map(|launcher| launcher.wait_for(0));
        }
    }

    /// Checks that every step was made, and each time with the loss of an undisturbed run.
    pub fn assert_as_undisturbed(&self) {
        let undisturbed = undisturbed(&self.torch);
        let mut made = vec![false; undisturbed.len()];
        for step in self.nodes.iter().flat_map(Node::steps) {
            let position = usize::try_from(step.step - 1).unwrap();
            let expected = undisturbed[position];
            assert!((step.loss - expected).abs() <= TOLERANCE * expected, "{expected} in an undisturbed run: {step:?}");
            made[position] = true;
        }
        assert!(made.iter().all(|made| *made), "a step is missing: {made:?}");
    }

    fn start_node(&mut self) {
        let log = self.job.folder.path().join(format!("steps-{}", self.started));
        let mut command = self.job.command();
        train(&mut command, &self.torch, &log).args(["--sleep", SLEEP]);
        self.nodes.push(Node { launcher: Some(Launcher::start(&mut command)), log, ended: None });
        self.started += 1;
    }
}

impl Node {
    /// The steps that its processes have made so far, the oldest first.
    pub fn steps(&self) -> Vec<Step> {
        read(&self.log)
    }

    /// The last of them.
    pub fn last_step(&self) -> Step {
        self.steps().pop().unwrap()
    }

    /// Kills its process and leaves its launcher.
    pub fn kill_worker(&self) {
        kill(Pid::from_raw(self.last_step().pid), Signal::SIGKILL).unwrap();
    }

    /// Loses the node: launcher and process are killed, and no process is left to report it.
    pub fn kill(self) {
        self.launcher.as_ref().unwrap().signal(Signal::SIGKILL);
        // The end of the launcher may have been quicker.
        let _ = kill(Pid::from_raw(self.last_step().pid), Signal::SIGKILL);
    }

    pub fn printed(&self) -> String {
        match (&self.launcher, &self.ended) {
            (Some(launcher), _) => format!("{}\n{}", launcher.stdout(), launcher.stderr()),
            (None, Some(ended)) => format!("{}\n{}", ended.stdout, ended.stderr),
            (None, None) => String::new(),
        }
    }
}

/// The loss of every step in an undisturbed run of one process. Runs once for all tests.
fn undisturbed(torch: &Torch) -> &'static [f64] {
    static LOSSES: OnceLock<Vec<f64>> = OnceLock::new();
    LOSSES.get_or_init(|| {
        let folder = Folder::new();
        let log = folder.path().join("steps");
        let mut command = launch(&folder, ["--standalone", "--nproc-per-node=1"]);
        Launcher::start(train(&mut command, torch, &log)).wait_for(0);
        let steps = read(&log);
        assert!(steps.iter().map(|step| step.step).eq(1..=STEPS), "{steps:?}");
        steps.iter().map(|step| step.loss).collect()
    })
}

/// The example with this Python, its steps in this file.
fn train<'a>(command: &'a mut Command, torch: &Torch, log: &PathBuf) -> &'a mut Command {
    command.env("PYTHON_EXEC", torch.python()).env("GLOO_SOCKET_IFNAME", "lo").env("OMP_NUM_THREADS", "1");
    command.arg(root().join(EXAMPLE)).arg("--steps").arg(STEPS.to_string()).arg("--log").arg(log)
}

/// The complete lines of a log.
fn read(log: &PathBuf) -> Vec<Step> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
