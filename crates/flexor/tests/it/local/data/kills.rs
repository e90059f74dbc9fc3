//! Tests kill -9 of workers, launchers and the master at random moments of an epoch, in sequence and together.
//!
//! No record is lost, and the workers repeat no more records than the report admits.

use std::fs;

use flexor_testbed::skip;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::faults::deadline::eventually_or_explain;
use super::super::faults::random::Random;
use super::super::launch::job::Job;
use super::super::launch::launcher::Launcher;
use super::report::{Report, WrittenRecords};
use super::worker::Worker;

const BATCH: u64 = 5;
/// The most batches that are done between two kills.
const APART: u64 = 12;
/// Left for after the last kill. A restarted master must first measure how long a batch takes; then it takes back the
/// leases of dead workers.
const REST: u64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Worker,
    Launcher,
    Master,
}

use Victim::{Launcher as L, Master as M, Worker as W};

#[test]
fn workers_launchers_and_the_master_are_killed_in_every_order() {
    let orders: [&[&[Victim]]; 3] = [&[&[W], &[L], &[M]], &[&[M], &[W], &[L]], &[&[L], &[M], &[W]]];
    nothing_is_lost(Worker::Python, &orders.concat());
}

#[test]
fn workers_launchers_and_the_master_are_killed_in_the_other_orders() {
    let orders: [&[&[Victim]]; 3] = [&[&[W], &[M], &[L]], &[&[M], &[L], &[W]], &[&[L], &[W], &[M]]];
    nothing_is_lost(Worker::Python, &orders.concat());
}

#[test]
fn workers_and_the_master_are_lost_together() {
    nothing_is_lost(Worker::Python, &[&[W, M], &[M, W], &[L, M], &[M, L], &[W, L, M]]);
}

#[test]
fn a_program_of_curl_survives_them_all() {
    nothing_is_lost(Worker::Shell, &[&[M], &[W], &[L], &[W, M]]);
}

/// Kills these, each at a random moment a little later; victims of one step die without a pause in between.
fn nothing_is_lost(worker: Worker, steps: &[&[Victim]]) {
    if let Some(needs) = worker.lacks() {
        skip!("there is no {needs}");
    }
    let batches = steps.len() as u64 * APART + REST;
    // The last batch is smaller than the others.
    let records = batches * BATCH - 2;
    let mut scene = TwoNodeJob::start(&worker.script(records, BATCH, 0.1));
    for step in steps {
        scene.some_batches_later();
        scene.kill(step);
    }
    let report = Report::await_done(scene.job.master.ports.grpc, records, || scene.explain());
    let TwoNodeJob { job, nodes, .. } = scene;
    report.fits(records, &WrittenRecords::read(&job.folder));
    // A launcher that leaves and rejoins restarts four workers twice; further repeats are not counted.
    let disturbed = steps.concat().len() as u64 * 8;
    assert!(report.totals.repeated_at_most <= disturbed * BATCH, "{report:?}");
    nodes.into_iter().for_each(|node| drop(node.wait_for(0)));
}

/// A job of two nodes with two workers each.
struct TwoNodeJob {
    job: Job,
    nodes: Vec<Launcher>,
    script: String,
    random: Random,
}

impl TwoNodeJob {
    fn start(script: &str) -> Self {
        let job = Job::start("1:2", "1000");
        job.expect(2);
        let nodes = vec![job.node(2, script), job.node(2, script)];
        Self { job, nodes, script: script.to_owned(), random: Random::new() }
    }

    /// Waits for a random number of batches.
    fn some_batches_later(&mut self) {
        let master = self.job.master.ports.grpc;
        let done = Report::ask(master).map_or(0, |report| report.totals.accounted + report.totals.quarantined);
        let further = (1 + self.random.below(APART - 1)) * BATCH;
        Report::await_done(master, done + further, || self.explain());
    }

    /// Kills each of them, then restarts what does not restart by itself.
    fn kill(&mut self, victims: &[Victim]) {
        // Chosen first: without a master no missing worker starts.
        let worker = victims.contains(&Victim::Worker).then(|| self.any_worker());
        let mut dead = Vec::new();
        for victim in victims {
            match victim {
                // It may have exited already.
                Victim::Worker => drop(worker.map(|worker| kill(worker, Signal::SIGKILL))),
                Victim::Launcher => {
                    let node = self.any_node();
                    self.nodes[node].signal(Signal::SIGKILL);
                    dead.push(self.nodes.remove(node));
                }
                Victim::Master => drop(self.job.master.end_with(Signal::SIGKILL)),
            }
        }
        // The master at once, before another process gets its ports.
        if victims.contains(&Victim::Master) {
            self.job.start_master_again();
        }
        for node in dead {
            node.wait();
            self.nodes.push(self.job.node(2, &self.script));
        }
    }

    /// The state for an error message.
    fn explain(&self) -> String {
        let output: Vec<String> = self.nodes.iter().map(Launcher::stderr).collect();
        format!(
            "{:#}\nthe master: {}\nits nodes: {}",
            self.job.master.status(),
            self.job.master.log(),
            output.join("\n")
        )
    }

    /// Waits for a worker: a node that has just joined may have none yet.
    fn any_worker(&mut self) -> Pid {
        let one = usize::try_from(self.random.below(4)).unwrap();
        let look = || {
            let workers: Vec<Pid> = self.nodes.iter().flat_map(|node| children(node.id())).collect();
            workers.get(one).or(workers.first()).copied()
        };
        eventually_or_explain("a worker", look, || self.explain())
    }

    fn any_node(&mut self) -> usize {
        usize::try_from(self.random.below(self.nodes.len() as u64)).unwrap()
    }
}

/// The workers of a launcher: its child processes except its keeper.
pub fn children(launcher: Pid) -> Vec<Pid> {
    launcher_children(launcher).into_iter().filter(|child| !is_keeper(*child)).collect()
}

/// Every child of this process.
pub fn launcher_children(parent: Pid) -> Vec<Pid> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    all.filter(|pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields.split(' ').collect::<Vec<_>>());
        fields.is_some_and(|fields| fields[0] != "Z" && fields[1] == parent.to_string())
    })
    .map(Pid::from_raw)
    .collect()
}

/// Whether a process is the keeper that ends the leftovers of a killed launcher.
pub fn is_keeper(process: Pid) -> bool {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("end-what-is-left")
}
