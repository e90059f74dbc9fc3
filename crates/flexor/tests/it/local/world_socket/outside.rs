//! Tests nodes outside the world: after a worker's death its successor starts outside, while the others continue.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use flexor_testbed::skip;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::super::faults::deadline::{eventually, throughout};
use super::super::launch::folder::WAIT;
use super::super::launch::job::Job;
use super::super::launch::launcher::{Launcher, end_well};
use super::world_reports::{self, WorldReport};
use super::{has_python, job, one_more, worker};

/// A script that records its start, and runs something other than the worker from the second time on.
fn then(second: &str) -> String {
    format!("echo $FLEXOR_INCARNATION >> starts; if [ $(wc -l < starts) -gt 1 ]; then {second}; fi; {}", worker(""))
}

fn kill_worker(worker: &WorldReport) {
    kill(Pid::from_raw(worker.pid), Signal::SIGKILL).unwrap();
}

/// Two nodes, and the worker of the second one killed: the first is alone in the next world.
fn stands_aside(second: &str) -> (Job, Launcher, Launcher) {
    let job = job(1);
    let staying = job.node(1, &worker(""));
    world_reports::await_world(&job.folder, |world| world.len() == 1);
    let aside = one_more(&job, 1, &then(second));
    let first = world_reports::await_world(&job.folder, |world| world.len() == 2);
    let killed = first.iter().find(|report| !first[0].world.survivors.contains(&report.world.rank)).unwrap();
    kill_worker(killed);
    world_reports::await_world(&job.folder, |world| world[0].world.world_size == 1 && world[0].pid == first[0].pid);
    (job, staying, aside)
}

macro_rules! python_or_skip {
    () => {
        if !has_python() {
            skip!("there is no python3");
        }
    };
}

#[test]
fn a_node_whose_next_worker_finds_no_work_waits_for_the_end_of_the_run() {
    python_or_skip!();
    let (job, staying, mut aside) = stands_aside("exit 0");
    aside.await_stderr("nothing left to do");
    throughout(Duration::from_secs(2), || assert!(aside.is_running()));
    job.folder.let_go();
    end_well([staying, aside]);
    assert_eq!(job.folder.lines("starts").len(), 2, "nothing was started any more");
}

#[test]
fn a_node_needed_for_the_minimum_rejoins_although_its_worker_finds_no_work() {
    python_or_skip!();
    let job = job(1);
    let node = job.node(1, &then("exit 0"));
    kill_worker(&world_reports::await_world(&job.folder, |world| world.len() == 1)[0]);
    node.wait_for(0);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

#[test]
fn a_node_learns_that_the_run_is_closed_while_its_worker_starts_outside() {
    python_or_skip!();
    let (job, staying, aside) = stands_aside("trap 'exit 0' TERM; while :; do sleep 0.1; done");
    job.folder.await_lines("starts", 2);
    job.folder.let_go();
    end_well([staying, aside]);
}

#[test]
fn a_signal_ends_a_node_outside_the_world() {
    python_or_skip!();
    let (job, staying, aside) = stands_aside("trap 'exit 0' TERM; while :; do sleep 0.1; done");
    job.folder.await_lines("starts", 2);
    aside.signal(Signal::SIGTERM);
    aside.wait_for(130);
    job.folder.let_go();
    end_well([staying]);
}

#[test]
fn a_program_that_fails_outside_is_counted_and_the_others_go_on() {
    python_or_skip!();
    let (job, staying, aside) = stands_aside("exit 3");
    let ended = aside.wait_for(1);
    assert!(ended.stderr.contains("RestartsExhausted: the program failed 1 times on this node"), "{}", ended.stderr);
    assert!(ended.stderr.contains("failed at local rank 0, outside every world ("), "{}", ended.stderr);
    job.folder.let_go();
    end_well([staying]);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

#[test]
fn a_worker_that_is_killed_before_it_was_of_any_use_is_not_started_for_ever() {
    python_or_skip!();
    let began = Instant::now();
    let (job, staying, aside) = stands_aside("kill -9 $$");
    let ended = aside.wait_for(1);
    assert!(ended.stderr.contains("RestartsExhausted"), "{}", ended.stderr);
    // The first kill is free, the next one is not.
    assert_eq!(job.folder.lines("starts").len(), 2, "in {:?}", began.elapsed());
    job.folder.let_go();
    end_well([staying]);
}

#[test]
fn a_worker_that_is_killed_whenever_it_enters_a_world_is_not_started_for_ever() {
    python_or_skip!();
    let (job, staying, aside) = stands_aside(&worker("dies-when-told"));
    let ended = aside.wait_for(1);
    assert!(ended.stderr.contains("RestartsExhausted"), "{}", ended.stderr);
    assert_eq!(job.folder.lines("starts").len(), 2, "it received a world and died in it");
    job.folder.let_go();
    end_well([staying]);
}

#[test]
fn a_failure_is_reported_with_the_rank_of_the_last_world() {
    python_or_skip!();
    let job = job(1);
    let staying = job.node(1, &worker(""));
    world_reports::await_world(&job.folder, |world| world.len() == 1);
    let failing = one_more(&job, 1, &worker(""));
    let world = world_reports::await_world(&job.folder, |world| world.len() == 2);
    kill(Pid::from_raw(world[1].pid), Signal::SIGTERM).unwrap();
    let ended = failing.wait_for(1);
    assert!(ended.stderr.contains("failed at rank 1 ("), "it began outside: {}", ended.stderr);
    assert!(ended.stderr.contains("rank       : 1 (local rank 0)"), "{}", ended.stderr);
    job.folder.let_go();
    end_well([staying]);
}

#[test]
fn the_next_world_does_not_wait_for_other_workers_of_a_failed_node_to_end() {
    python_or_skip!();
    let job = job(1);
    let staying = job.node(1, &worker(""));
    world_reports::await_world(&job.folder, |world| world.len() == 1);
    job.expect(2);
    let until_let_go = format!("trap 'echo > asked; {WAIT}; echo > ended; exit 0' TERM; ");
    let slow = worker("").replacen("exec ", &until_let_go, 1);
    let aside = job.node(2, &format!("if [ $LOCAL_RANK = 1 ]; then {slow} & wait; else {}; fi", worker("")));
    let first = world_reports::await_world(&job.folder, |world| world.len() == 3);
    kill_worker(first.iter().rfind(|report| report.world.local_rank == 0).unwrap());
    let second = world_reports::await_world(&job.folder, |world| world[0].world.world_size == 1);
    assert!(!job.folder.path().join("ended").exists(), "the other worker takes its time");
    assert_eq!(second[0].pid, first[0].pid);
    job.folder.let_go();
    end_well([staying, aside]);
    assert!(job.folder.path().join("asked").exists(), "the other worker was terminated");
}

#[test]
fn a_node_without_work_rejoins_when_the_others_fall_below_the_minimum() {
    python_or_skip!();
    let job = Job::start("2:3", "0");
    job.expect(3);
    let [staying, lost] = [(); 2].map(|()| job.node(1, &worker("")));
    let aside = job.node(1, &then("exit 0").replacen("$FLEXOR_INCARNATION", "$$", 1));
    let first = world_reports::await_world(&job.folder, |world| world.len() == 3);
    let killed: i32 = job.folder.await_lines("starts", 1)[0].parse().unwrap();
    kill_worker(first.iter().find(|report| report.pid == killed).unwrap());
    let second = world_reports::await_world(&job.folder, |world| world.len() == 2 && world[0].world.world_size == 2);
    aside.await_stderr("nothing left to do");
    drop(lost);
    let third = world_reports::await_world(&job.folder, |world| world[0].world.round > second[0].world.round);
    assert_eq!((third.len(), third[0].world.world_size), (1, 2), "{third:?}");
    job.folder.let_go();
    end_well([staying, aside]);
    assert_eq!(job.folder.lines("starts").len(), 3);
}

#[test]
fn a_node_with_one_ready_and_one_finished_worker_restarts_both() {
    python_or_skip!();
    let job = job(1);
    // In the second incarnation one worker has nothing to do, in the third both have.
    let second = "case $LOCAL_RANK$(wc -l < starts) in 1[34]) exit 0;; esac";
    let script = format!("echo $FLEXOR_INCARNATION >> starts; {second}; {}", worker(""));
    let node = job.node(2, &script);
    kill_worker(&world_reports::await_world(&job.folder, |world| world.len() == 2)[0]);
    let lines = job.folder.await_lines("starts", 6);
    world_reports::await_world(&job.folder, |world| world.len() == 2 && world[0].world.round > 0);
    let lives: BTreeSet<&String> = lines.iter().collect();
    assert_eq!(lives.len(), 3, "{lines:?}");
    job.folder.let_go();
    end_well([node]);
}

#[test]
fn every_incarnation_of_a_worker_has_a_greater_number_than_its_predecessors() {
    python_or_skip!();
    let (job, first, second) = stands_aside(":");
    // In and out of worlds, with rounds that others complete in the meantime.
    for _ in 0..2 {
        let world = world_reports::await_world(&job.folder, |world| world.len() == 2);
        // One that is killed before it has joined was of no use, and is charged.
        second.await_stderr(&format!("have joined the world round={}", world[0].world.round));
        kill_worker(world.iter().find(|report| !world[0].world.survivors.contains(&report.world.rank)).unwrap());
        world_reports::await_world(&job.folder, |next| {
            next[0].world.round > world[0].world.round + 1 && next.len() == 2
        });
    }
    job.folder.let_go();
    end_well([first, second]);
    let lives: Vec<u64> = job.folder.lines("starts").iter().map(|line| line.parse().unwrap()).collect();
    assert!(lives.len() == 4 && lives.is_sorted_by(|earlier, later| earlier < later), "{lives:?}");
}

#[test]
fn a_node_steps_out_after_an_outage_of_the_master_in_which_its_worker_died() {
    python_or_skip!();
    let mut job = job(1);
    let staying = job.node(1, &worker("loses-peers"));
    world_reports::await_world(&job.folder, |world| world.len() == 1);
    // The next worker takes its time.
    let aside = one_more(&job, 1, &then(WAIT));
    let first = world_reports::await_world(&job.folder, |world| world.len() == 2);
    job.master.end_with(Signal::SIGKILL);
    kill_worker(first.iter().find(|report| report.pid != first[0].pid).unwrap());
    fs::write(job.folder.path().join("lost"), "").unwrap();
    job.folder.await_lines("starts", 2);
    job.start_master_again();
    let second = world_reports::await_world(&job.folder, |world| world[0].world.round > first[0].world.round);
    assert_eq!((second[0].pid, second[0].world.world_size), (first[0].pid, 1), "it does not wait: {second:?}");
    job.folder.let_go();
    end_well([staying, aside]);
}

/// A node of a job for two, whose worker is in the world and is kept for the next one, which never forms.
fn kept_worker(script: &str) -> (Job, Launcher) {
    let job = Job::start("2", "0");
    let waiting = job.node(1, script);
    let lost = job.node(1, &worker(""));
    world_reports::await_world(&job.folder, |world| world.len() == 2);
    drop(lost);
    let members = || job.run()["members"].as_array().cloned().unwrap_or_default();
    eventually("the node that waits", || {
        matches!(&members()[..], [member] if member["state"] == "joined").then_some(())
    });
    (job, waiting)
}

/// The same, and the worker ends with this code.
fn kept_worker_that_quits(code: i32) -> (Job, Launcher) {
    let (job, waiting) = kept_worker(&worker("quits"));
    fs::write(job.folder.path().join("quit"), code.to_string()).unwrap();
    (job, waiting)
}

#[test]
fn a_terminated_launcher_waits_for_no_world_while_its_kept_worker_ends_slowly() {
    python_or_skip!();
    let slow = worker("").replacen("exec ", "trap 'echo asked; sleep 3; kill $!; exit 0' INT; ", 1);
    let (job, mut waiting) = kept_worker(&format!("{slow} & wait"));
    waiting.signal(Signal::SIGINT);
    waiting.await_stdout("asked", 1);
    eventually("a master without the node", || (job.master.members() == 0).then_some(()));
    throughout(Duration::from_secs(1), || assert!(waiting.is_running(), "it left when its worker had ended"));
    waiting.wait_for(130);
}

#[test]
fn a_worker_that_fails_while_it_is_kept_for_the_next_world_is_a_failure() {
    python_or_skip!();
    let (_job, waiting) = kept_worker_that_quits(3);
    let ended = waiting.wait_for(1);
    assert!(ended.stderr.contains("RestartsExhausted: the program failed 1 times on this node"), "{}", ended.stderr);
}

#[test]
fn a_worker_that_ends_well_while_it_is_kept_for_the_next_world_has_finished() {
    python_or_skip!();
    let (job, waiting) = kept_worker_that_quits(0);
    waiting.await_stderr("a worker ended while it waited for a world");
    job.folder.let_go();
    let new = job.node(1, &worker(""));
    end_well([new, waiting]);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}
