//! The demo of stock torchrun: one job under several faults.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use flexor_testbed::Torch;
use flexor_testbed::flexor_processes::{Decision, JobNode, Master, MasterConfig};
use flexor_testbed::torchrun::AgentConfig;

use super::narrator::Narrator;
use super::progress::{LogPosition, Progress};
use crate::compile;
use crate::tree::project_root;

/// The name of the job.
const JOB: &str = "digits";
/// The deadline of each step of the demo.
const DEADLINE: Duration = Duration::from_secs(120);
/// How long the master is away.
const OUTAGE: Duration = Duration::from_secs(5);
/// Where logs are kept, below the root of the repository.
const LOGS: &str = "target/demo/torchrun";

pub(super) fn run() -> Result<ExitCode> {
    let root = project_root()?;
    let mut narrator =
        Narrator::begin("Stock torchrun on a flexor master: it loses rank 0, then its master, and trains on.");
    narrator.tell("PyTorch comes from the cache, or is installed into it: 550 MB, about 1.5 minutes");
    let torch = Torch::ensure()?;
    narrator.tell("PyTorch is there; flexor is built: the first time takes minutes");
    let program = compile::flexor(&root, "release")?;
    let mut job = Job::start(&torch, &program, &root)?;
    match job.live_through_everything(&mut narrator) {
        Ok(()) => {
            narrator.tell("everything has ended; nothing of it is left running");
            println!("\nThe same, measured against torchrun's own store: cargo xtask bench recovery");
            println!("What a torchrun user changes:                   docs/guide/torchrun.md");
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            job.save_logs(&root.join(LOGS))?;
            eprintln!("\nerror: {error:#}\nThe logs of the master and of every node are in {LOGS}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The job of the demo.
struct Job<'a> {
    torch: &'a Torch,
    script: PathBuf,
    /// The checkpoint.
    folder: tempfile::TempDir,
    // Before the master, so that the end of the nodes is not the loss of their store.
    nodes: Vec<JobNode>,
    /// Kept for their logs.
    lost: Vec<JobNode>,
    master: Master,
}

impl<'a> Job<'a> {
    fn start(torch: &'a Torch, program: &Path, root: &Path) -> Result<Job<'a>> {
        let folder = tempfile::tempdir().context("cannot make a folder for the checkpoint")?;
        let master = Master::start(torch, MasterConfig::new(program, JOB, "2:3"))?;
        let script = root.join("examples/torch-mnist/train.py");
        Ok(Job { torch, script, folder, nodes: Vec::new(), lost: Vec::new(), master })
    }

    /// The story.
    fn live_through_everything(&mut self, narrator: &mut Narrator) -> Result<()> {
        self.begin(narrator)?;
        self.lose_rank_zero(narrator)?;
        self.gain_a_node(narrator)?;
        self.lose_the_master(narrator)?;
        self.end(narrator)
    }

    fn begin(&mut self, narrator: &mut Narrator) -> Result<()> {
        narrator.chapter("A master and three nodes");
        let master = self.master.grpc().to_owned();
        narrator.tell(&format!("flexor master --job {JOB} --nnodes 2:3   (try: curl {master}/api/status)"));
        let mark = LogPosition::of(&self.nodes);
        for number in 0..3 {
            self.add_node(number)?;
            narrator.tell(&format!("node-{number}: flexor sidecar, torchrun train.py"));
        }
        let steps = mark.await_steps(&self.nodes, DEADLINE, |progress| progress.step >= 20)?;
        self.meet(narrator)?;
        narrator.tell(&format!("they train together: {}", describe_steps(&steps)));
        Ok(())
    }

    fn lose_rank_zero(&mut self, narrator: &mut Narrator) -> Result<()> {
        narrator.chapter("The node of rank 0 is killed: torchrun, worker and sidecar, all with SIGKILL");
        let leader = self.position_of_rank_zero()?;
        let (mark, moment) = (LogPosition::of(&self.nodes), SystemTime::now());
        let victim = self.nodes.remove(leader);
        victim.kill();
        narrator.tell(&format!("{} is gone; torchrun by itself would not come back from this", victim.agent().name()));
        self.lost.push(victim);
        let meeting = self.await_training(narrator, &mark, moment, 2)?;
        narrator.aside(&format!("the others met again {:.1} s after the kill", meeting.met));
        meeting.tell_the_rest(narrator);
        Ok(())
    }

    fn gain_a_node(&mut self, narrator: &mut Narrator) -> Result<()> {
        narrator.chapter("Another node comes");
        let (mark, moment) = (LogPosition::of(&self.nodes), SystemTime::now());
        self.add_node(3)?;
        narrator.tell("node-3 starts; the others train until it is there, then all meet again");
        let meeting = self.await_training(narrator, &mark, moment, 3)?;
        let met = meeting.met - meeting.began;
        narrator.aside(&format!("all met {met:.1} s after its first word to the master"));
        meeting.tell_the_rest(narrator);
        Ok(())
    }

    fn lose_the_master(&mut self, narrator: &mut Narrator) -> Result<()> {
        narrator.chapter("The master is killed with kill -9 and started again");
        let mark = LogPosition::of(&self.nodes);
        self.master.kill();
        narrator.tell("the master is gone; every torchrun still talks to its sidecar");
        thread::sleep(OUTAGE);
        let away = LogPosition::of(&self.nodes).await_steps(&self.nodes, DEADLINE, |_| true)?;
        narrator.tell(&format!("{} s later they train: {}", OUTAGE.as_secs(), describe_steps(&away)));
        self.master.start_again()?;
        let generation = self.master.generation();
        narrator.tell(&format!("it is back on its journal, generation {generation} of the same job"));
        // After the time in which sidecars must return.
        let last = away.iter().map(|progress| progress.step).max().unwrap_or(0);
        let steps = mark.await_steps(&self.nodes, DEADLINE, |progress| progress.step > last + 30)?;
        let status = self.master.run_status()?.context("the master has forgotten the job")?;
        narrator.tell(&format!("they train: {}; the master says {}", describe_steps(&steps), status.status.message));
        let restarted = self.nodes.iter().filter(|node| mark.starts(node) > 0).count();
        ensure!(restarted == 0, "{restarted} nodes have restarted their workers");
        narrator.aside("no worker was restarted");
        Ok(())
    }

    fn end(&mut self, narrator: &mut Narrator) -> Result<()> {
        narrator.chapter("The end");
        narrator.tell("every torchrun gets SIGTERM, as from a cluster");
        for node in &self.nodes {
            node.agent().terminate()?;
        }
        for node in &self.nodes {
            node.agent().await_exit(DEADLINE)?;
        }
        self.nodes.clear();
        self.master.kill();
        Ok(())
    }

    /// Waits until all nodes train in a world of this size that began after the position, and returns the times of its
    /// formation.
    fn await_training(
        &mut self,
        narrator: &mut Narrator,
        mark: &LogPosition,
        moment: SystemTime,
        world: u32,
    ) -> Result<Rejoin> {
        let steps = mark.await_steps(&self.nodes, DEADLINE, |progress| progress.world == world)?;
        let trained = mark.elapsed().as_secs_f64();
        self.meet(narrator)?;
        let decisions = self.master.decisions()?;
        narrator.decisions(&decisions, moment);
        narrator.tell(&format!("they train again: {}", describe_steps(&steps)));
        let after = |decision: &Decision| decision.at.duration_since(moment).ok().map(|time| time.as_secs_f64());
        let began = decisions.iter().find_map(after).context("the master has decided nothing")?;
        let worlds = decisions.iter().filter(|decision| decision.what == "roundComplete");
        let met = worlds.filter_map(after).next_back().context("the master has made no new world")?;
        let resumed = self.nodes.first().and_then(|node| mark.resumed_at(node)).context("nobody was started again")?;
        Ok(Rejoin { began, met, resumed, trained })
    }

    fn add_node(&mut self, number: usize) -> Result<()> {
        let checkpoint = self.folder.path().join("digits.pt");
        // Slow enough to be watched; the demo ends it, not the data.
        let args = ["--epochs", "100000", "--sleep", "0.1", "--log-every", "1", "--checkpoint-every", "10"];
        let args = args.map(OsString::from).into_iter().chain(["--checkpoint".into(), checkpoint.into()]);
        let config = AgentConfig::new(format!("node-{number}"))
            .env("PET_LOCAL_ADDR", format!("127.1.1.{}", 10 + number))
            .script(&self.script)
            .args(args);
        self.nodes.push(JobNode::start(self.torch, &self.master, config)?);
        Ok(())
    }

    /// The node of rank 0, by the master's status.
    fn position_of_rank_zero(&self) -> Result<usize> {
        let status = self.master.run_status()?.context("the master knows of no world")?;
        let leader = status.members.into_iter().find(|member| member.rank == Some(0)).and_then(|member| member.pod);
        let leader = leader.context("the master knows no node of rank 0")?;
        let position = self.nodes.iter().position(|node| node.agent().name() == leader);
        position.with_context(|| format!("rank 0 is {leader}, which is no node of this demo"))
    }

    fn meet(&self, narrator: &mut Narrator) -> Result<()> {
        narrator.meet(&self.master.run_status()?.context("the master knows of no world")?);
        Ok(())
    }

    fn save_logs(&self, folder: &Path) -> Result<()> {
        let write = |name: &str, text: String| {
            let file = folder.join(format!("{name}.log"));
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
        };
        // Leftovers of an earlier run would mislead.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        write("master", self.master.log())?;
        for node in self.nodes.iter().chain(&self.lost) {
            let name = node.agent().name();
            write(name, node.agent().log())?;
            write(&format!("{name}-sidecar"), node.sidecar().log())?;
        }
        Ok(())
    }
}

/// How nodes rejoined. Times are in seconds since the fault.
struct Rejoin {
    /// When the master made its first decision about it.
    began: f64,
    /// When the new world was complete.
    met: f64,
    /// The step of the checkpoint from which they resumed.
    resumed: u64,
    /// When they made a step.
    trained: f64,
}

impl Rejoin {
    fn tell_the_rest(&self, narrator: &Narrator) {
        let Rejoin { met, resumed, trained, .. } = self;
        narrator.aside(&format!(
            "and trained on from the checkpoint of step {resumed} {:.1} s later, when Python had imported torch",
            trained - met
        ));
    }
}

/// Where a world is, in one line.
fn describe_steps(steps: &[Progress]) -> String {
    let Some(first) = steps.iter().min_by_key(|progress| progress.rank) else {
        return "nobody".to_owned();
    };
    format!("{} workers, step {}, loss {:.2}", first.world, first.step, first.loss)
}
