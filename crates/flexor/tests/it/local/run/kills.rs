//! Tests kill -9 of any process of a job during training: the job succeeds, and no record is lost.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::data::report::WrittenRecords;
use super::super::faults::deadline::eventually;
use super::super::launch::folder::WAIT;
use super::cluster::{LocalPod, Workspace, job_of};
use super::endings::ANY_PROGRAM;

const WORKER: &str = "any-program-worker-0";
const MASTER: &str = "any-program-master";
/// Of a batch; each of four processes may be at one when it or its master is killed.
const AT_WORK: u64 = 40;

#[test]
fn a_workers_program_is_killed() {
    nothing_is_lost_without(WORKER, |pod| pod.main_id().unwrap());
}

#[test]
fn the_supervisor_of_a_worker_is_killed() {
    nothing_is_lost_without(WORKER, LocalPod::supervisor);
}

#[test]
fn the_master_is_killed() {
    nothing_is_lost_without(MASTER, |pod| pod.main_id().unwrap());
}

#[test]
fn the_supervisor_of_the_master_is_killed() {
    nothing_is_lost_without(MASTER, LocalPod::supervisor);
}

#[test]
fn the_supervisor_of_a_pod_is_killed_right_after_its_start() {
    let workspace = Workspace::new();
    let run = workspace.run(&[ANY_PROGRAM]);
    let first = workspace.await_running(MASTER);
    kill(first.supervisor(), Signal::SIGKILL).unwrap();
    run.wait_for(0);
    assert_eq!(WrittenRecords::read(&workspace.folder).records(), 1000);
}

#[test]
fn workers_and_the_master_are_killed_one_after_the_other() {
    let workspace = Workspace::new();
    let run = workspace.run(&[ANY_PROGRAM]);
    for (records, pod) in [(100, WORKER), (250, MASTER), (400, "any-program-worker-1"), (550, MASTER)] {
        workspace.await_records(records);
        kill(workspace.await_running(pod).main_id().unwrap(), Signal::SIGKILL).unwrap();
    }
    run.wait_for(0);
    let written = WrittenRecords::read(&workspace.folder);
    assert_eq!(written.records(), 1000);
    assert!(written.repeats() <= 4 * AT_WORK, "{} again", written.repeats());
    workspace.assert_nothing_is_left_of(&[]);
}

#[test]
fn a_restarted_pod_is_reported_although_its_slot_was_scaled_away_meanwhile() {
    let workspace = Workspace::new();
    let run = workspace.run(&[&workspace.manifest(&job_of("job", 2, WAIT))]);
    let victim = workspace.await_running("job-worker-1");
    kill(victim.main_id().unwrap(), Signal::SIGKILL).unwrap();
    eventually("another incarnation", || {
        (workspace.await_running("job-worker-1").status.supervisor != victim.status.supervisor).then_some(())
    });
    workspace.says(&["scale", "job", "--worker", "1"]);
    let is_it = |pod: &LocalPod| pod.name == "job-worker-1";
    eventually("its place to be given up", || (!workspace.pods().iter().any(is_it)).then_some(()));
    workspace.says(&["scale", "job", "--worker", "2"]);
    workspace.await_running("job-worker-1");
    workspace.folder.let_go();
    let ended = run.wait_for(0);
    assert!(ended.stdout.contains("\n  started again   1 killed\n"), "{}", ended.stdout);
    assert!(ended.stdout.trim_end().ends_with("pods started again: 1"), "{}", ended.stdout);
}

fn nothing_is_lost_without(pod: &str, process: impl FnOnce(&LocalPod) -> Pid) {
    let workspace = Workspace::new();
    let run = workspace.run(&[ANY_PROGRAM]);
    workspace.await_records(200);
    let victim = workspace.await_running(pod);
    kill(process(&victim), Signal::SIGKILL).unwrap();
    let ended = run.wait_for(0);
    assert!(ended.stdout.contains(&format!("{pod}: PodWanted: its slot is filled again")), "{}", ended.stdout);
    let written = WrittenRecords::read(&workspace.folder);
    assert_eq!(written.records(), 1000, "{}", ended.stdout);
    assert!(written.repeats() <= AT_WORK, "{} again", written.repeats());
    println!("{} of 1000 written again", written.repeats());
    workspace.assert_nothing_is_left_of(&[victim]);
}
