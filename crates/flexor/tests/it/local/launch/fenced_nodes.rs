//! Tests nodes that the master declares lost, or replaces, while they are alive.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::super::faults::deadline::{eventually, throughout};
use super::folder::WAIT;
use super::job::Job;
use super::launcher::{Launcher, end_well};

fn pod(job: &Job, name: &str, script: &str) -> Launcher {
    Launcher::start(job.command().env("POD_NAME", name).args(["--nproc-per-node=1", "sh", "-c", script]))
}

fn reporting_script() -> String {
    format!("echo $WORLD_SIZE $TORCHELASTIC_RESTART_COUNT >> told; {WAIT}")
}

#[test]
fn an_earlier_incarnation_of_a_node_ends_without_affecting_the_later_one() {
    let job = Job::start("2", "0");
    let other = pod(&job, "other", &reporting_script());
    let earlier = pod(&job, "same", &reporting_script());
    assert_eq!(job.folder.await_lines("told", 2), ["2 0"; 2]);
    let later = pod(&job, "same", &reporting_script());
    let ended = earlier.wait_for(3);
    assert!(ended.stderr.contains("NodeFenced"), "{}", ended.stderr);
    let world = job.folder.await_lines("told", 4);
    assert_eq!(world[2..], ["2 0"; 2], "the later incarnation is in the next world");
    job.folder.let_go();
    end_well([other, later]);
    assert_eq!(job.folder.lines("told").len(), 4, "and no further world formed");
}

#[test]
fn a_terminated_earlier_incarnation_does_not_affect_the_later_one() {
    let job = Job::start("2", "0");
    let other = pod(&job, "other", &reporting_script());
    let earlier = pod(&job, "same", &reporting_script());
    job.folder.await_lines("told", 2);
    earlier.signal(Signal::SIGSTOP);
    let later = pod(&job, "same", &reporting_script());
    job.folder.await_lines("told", 4);
    earlier.signal(Signal::SIGTERM);
    earlier.signal(Signal::SIGCONT);
    earlier.wait();
    job.folder.let_go();
    end_well([other, later]);
    assert_eq!(job.folder.lines("told").len(), 4, "no further world formed");
}

#[test]
fn a_node_that_is_dropped_while_it_waits_joins_again() {
    let job = Job::start("2", "0");
    let waiting = pod(&job, "waiting", "echo started >> starts");
    for _ in 0..3 {
        eventually("the node at the master", || (job.master.members() == 1).then_some(()));
        job.post("/api/gone/waiting", "");
    }
    let other = pod(&job, "other", "echo started >> starts");
    end_well([waiting, other]);
    assert_eq!(job.folder.lines("starts").len(), 2);
}

#[test]
fn a_finished_node_declared_lost_rejoins_when_the_others_need_it() {
    let job = Job::start("2", "0");
    let done = pod(&job, "done", "echo done >> starts");
    let working = pod(&job, "working", &format!("echo working >> starts; {WAIT}"));
    eventually("a finished node", || job.master.log().contains("finished run=").then_some(()));
    job.folder.await_lines("starts", 2);
    job.post("/api/gone/done", "");
    let starts = job.folder.await_lines("starts", 4);
    assert_eq!(starts.iter().filter(|start| *start == "done").count(), 2, "{starts:?}");
    job.folder.let_go();
    end_well([done, working]);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

#[test]
fn a_finished_node_declared_lost_does_not_disturb_a_large_enough_world() {
    let job = Job::start("1:2", "0");
    job.expect(2);
    let mut done = pod(&job, "done", "echo done >> starts");
    let working = pod(&job, "working", &format!("echo working >> starts; {WAIT}"));
    eventually("a finished node", || job.master.log().contains("finished run=").then_some(()));
    job.folder.await_lines("starts", 2);
    job.post("/api/gone/done", "");
    job.folder.await_lines("starts", 3);
    throughout(Duration::from_secs(1), || assert!(done.is_running()));
    job.folder.let_go();
    end_well([done, working]);
    assert_eq!(job.folder.lines("starts").len(), 3, "the other one met again, and alone");
}
