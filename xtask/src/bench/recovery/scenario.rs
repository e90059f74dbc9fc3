//! The faults of a job: one function each, and the table with the longest allowed pause for each.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use flexor_testbed::Torch;
use flexor_testbed::flexor_processes::TwoNetworks;
use flexor_testbed::torchrun::AgentConfig;

use super::job::Job;
use super::outcome::{Outcome, Watch};
use super::side::Side;

/// How long after a loss the replacement is started.
const REPLACEMENT_AFTER: Duration = Duration::from_secs(3);
/// How long a surplus node gets to become a spare.
const SPARE_SETTLES: Duration = Duration::from_secs(3);

/// One fault.
pub(super) struct Scenario {
    /// The fault and the measured time.
    pub(super) metric: &'static str,
    /// The seconds to stay within.
    pub(super) marks: Marks,
    /// How many changes it consists of: the job may rejoin, and torchrun charge, once for each.
    pub(super) changes: u32,
    pub(super) cause: Cause,
    /// Whether it makes network namespaces.
    pub(super) needs_root: bool,
    play: fn(&Stage<'_>) -> Result<Outcome>,
}

/// The origin of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Nodes join, leave or hang, or the store does: not the program's fault.
    Nodes,
    /// A process of the program ends by itself, or appears so to its launcher.
    Program,
}

/// Seconds, by the launcher of the workers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    /// Stock torchrun, including its own timers.
    pub(super) torchrun: f64,
    /// `flexor launch`.
    pub(super) launch: f64,
}

/// For faults that a peer notices at once.
const NOTICED: Marks = Marks { torchrun: 4.0, launch: 2.5 };

/// The same for both.
const fn within(seconds: f64) -> Marks {
    Marks { torchrun: seconds, launch: seconds }
}

/// What is measured where the workers have made their last step.
pub(super) const RELEASED: &str = "others released";

/// Every scenario, in the order of running.
pub(super) const ALL: &[Scenario] = &[
    scenario("SIGKILL of a node, not rank 0: workers restarted", NOTICED, node_lost),
    scenario("SIGKILL of rank 0's node: workers restarted", NOTICED, rank_zero_lost),
    Scenario { changes: 2, ..scenario("SIGKILL, 3 s later a replacement: at full size", NOTICED, node_replaced) },
    scenario("one more node: at full size", NOTICED, node_added),
    scenario("SIGTERM of a node: workers restarted", within(2.0), scaled_down),
    Scenario { cause: Cause::Program, ..scenario("SIGKILL of a worker: workers restarted", NOTICED, worker_killed) },
    scenario("SIGKILL of a node, spare present: at full size", NOTICED, spare_present),
    scenario("SIGSTOP of a node: workers restarted", within(15.0), node_stopped),
    scenario("the stopped node wakes, fenced: at full size", within(15.0), node_woken),
    Scenario { needs_root: true, ..scenario("a node is cut off: workers restarted", within(15.0), node_cut_off) },
    scenario("SIGKILL while others leave: others released", within(2.0), lost_in_the_exit_barrier),
    scenario("store restarted, then one more node: at full size", NOTICED, store_restarted),
    scenario("store gone for 60 s, then one more node: at full size", NOTICED, store_gone),
];

const fn scenario(metric: &'static str, marks: Marks, play: fn(&Stage<'_>) -> Result<Outcome>) -> Scenario {
    Scenario { metric, marks, changes: 1, cause: Cause::Nodes, needs_root: false, play }
}

impl Scenario {
    /// Runs it once on a new job.
    pub(super) fn play(&self, torch: &Torch, side: &Side) -> Result<Outcome> {
        (self.play)(&Stage { torch, side })
    }
}

/// Where jobs are started.
struct Stage<'a> {
    torch: &'a Torch,
    side: &'a Side,
}

impl Stage<'_> {
    /// A job whose workers make steps until they are ended.
    fn job(&self, nodes: usize) -> Result<Job<'_>> {
        Job::start(self.torch, self.side, nodes, |config, _| config)
    }
}

fn node_lost(stage: &Stage<'_>) -> Result<Outcome> {
    let mut job = stage.job(3)?;
    let watch = Watch::begin(&job);
    job.take(1).kill();
    Ok(watch.new_world(&job, 2))
}

fn rank_zero_lost(stage: &Stage<'_>) -> Result<Outcome> {
    let mut job = stage.job(3)?;
    let watch = Watch::begin(&job);
    job.take(0).kill();
    Ok(watch.new_world(&job, 2))
}

fn node_replaced(stage: &Stage<'_>) -> Result<Outcome> {
    let mut job = stage.job(3)?;
    let watch = Watch::begin(&job);
    job.take(1).kill();
    thread::sleep(REPLACEMENT_AFTER);
    let joined = job.add_newcomer(3)?;
    Ok(watch.measured_from(joined).new_world(&job, 3))
}

fn node_added(stage: &Stage<'_>) -> Result<Outcome> {
    let mut job = stage.job(2)?;
    let watch = Watch::begin(&job);
    let joined = job.add_newcomer(2)?;
    Ok(watch.measured_from(joined).new_world(&job, 3))
}

fn scaled_down(stage: &Stage<'_>) -> Result<Outcome> {
    let mut job = stage.job(3)?;
    let watch = Watch::begin(&job);
    // Kept until the end: it leaves by itself.
    let leaving = job.take(2);
    leaving.agent().terminate()?;
    Ok(watch.new_world(&job, 2))
}

fn worker_killed(stage: &Stage<'_>) -> Result<Outcome> {
    let job = stage.job(3)?;
    let watch = Watch::begin(&job);
    job.node(1).agent().kill_workers()?;
    Ok(watch.new_world(&job, 3))
}

fn spare_present(stage: &Stage<'_>) -> Result<Outcome> {
    let mut job = stage.job(3)?;
    job.add_newcomer(3)?;
    thread::sleep(SPARE_SETTLES);
    let watch = Watch::begin(&job);
    job.take(1).kill();
    Ok(watch.new_world(&job, 3))
}

fn node_stopped(stage: &Stage<'_>) -> Result<Outcome> {
    let mut job = stage.job(3)?;
    let watch = Watch::begin(&job);
    // Kept until the end: a node that hangs still exists.
    let stopped = job.take(1);
    stopped.stop();
    Ok(watch.new_world(&job, 2))
}

/// Its effect on the others is counted from its wake-up: one restart for a newcomer is right, two are not.
fn node_woken(stage: &Stage<'_>) -> Result<Outcome> {
    let mut job = stage.job(3)?;
    let watch = Watch::begin(&job);
    let stopped = job.take(1);
    stopped.stop();
    let left_behind = watch.new_world(&job, 2);
    if left_behind.recovered.is_none() {
        return Ok(left_behind);
    }
    job.put_back(stopped);
    let watch = Watch::begin(&job);
    job.node(2).wake();
    let woken = watch.new_world(&job, 3);
    Ok(Outcome { charged: woken.charged.saturating_sub(left_behind.charged), ..woken })
}

fn node_cut_off(stage: &Stage<'_>) -> Result<Outcome> {
    let networks = TwoNetworks::start()?;
    let mut job = Job::start_across(stage.torch, stage.side, &networks)?;
    let watch = Watch::begin(&job);
    // Kept until the end: it runs on behind the partition.
    let _islander = job.take(2);
    networks.cut()?;
    Ok(watch.new_world(&job, 2))
}

fn store_restarted(stage: &Stage<'_>) -> Result<Outcome> {
    store_interrupted(stage, Duration::ZERO)
}

fn store_gone(stage: &Stage<'_>) -> Result<Outcome> {
    store_interrupted(stage, Duration::from_secs(60))
}

/// The workers' starts are counted from before the interruption: one for the newcomer is right, two are not.
fn store_interrupted(stage: &Stage<'_>, pause: Duration) -> Result<Outcome> {
    let mut job = stage.job(2)?;
    let watch = Watch::begin(&job);
    job.interrupt_store(pause)?;
    let joined = job.add_newcomer(2)?;
    Ok(watch.measured_from(joined).new_world(&job, 3))
}

fn lost_in_the_exit_barrier(stage: &Stage<'_>) -> Result<Outcome> {
    const LINGERS: usize = 2;
    let work = |config: AgentConfig, index| {
        let linger = if index == LINGERS { Duration::from_secs(600) } else { Duration::ZERO };
        config.steps(5).linger(linger)
    };
    let mut job = Job::start(stage.torch, stage.side, 3, work)?;
    job.await_workers_gone(&[0, 1])?;
    let watch = Watch::begin(&job);
    job.take(LINGERS).kill();
    Ok(watch.success(&job))
}
