//! Tests the world socket, through which workers outlive a change of the world, with a worker that speaks its protocol
//! by hand.
//!
//! The peers tier's `survive` tests real training with it.

mod newcomers;
mod outside;
mod world_reports;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use flexor_testbed::skip;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::world_reports::WorldReport;
use super::faults::store_client::StoreClient;
use super::launch::folder::WAIT;
use super::launch::job::Job;
use super::launch::launcher::{Launcher, end_well};
use crate::program::root;

/// A script that becomes the worker.
fn worker(behaviour: &str) -> String {
    let program = root().join("crates/flexor/tests/it/local/world_socket/worker.py");
    format!("exec python3 '{}' {behaviour}", program.display())
}

/// A job that waits for at most this many nodes.
fn job(nodes: usize) -> Job {
    let job = Job::start("1:3", "0");
    job.expect(nodes);
    job
}

/// Adds a node with this script to a job that had this many.
fn one_more(job: &Job, had: usize, script: &str) -> Launcher {
    job.expect(had + 1);
    job.node(1, script)
}

fn has_python() -> bool {
    let version = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

macro_rules! python_or_skip {
    () => {
        if !has_python() {
            skip!("there is no python3");
        }
    };
}

#[test]
fn workers_that_opted_in_receive_every_world_without_a_restart() {
    python_or_skip!();
    let job = job(2);
    let mut nodes = vec![job.node(2, &worker("")), job.node(1, &worker(""))];
    let first = world_reports::await_world(&job.folder, |world| world.len() == 3);
    world_reports::assert_world(&first, &BTreeSet::new());

    nodes.push(one_more(&job, 2, &worker("")));
    let second = world_reports::await_world(&job.folder, |world| world.len() == 4);
    let survivors: BTreeSet<i32> = first.iter().map(|report| report.pid).collect();
    world_reports::assert_world(&second, &survivors);
    assert!(second[0].world.round > first[0].world.round);

    let killed = second.iter().find(|report| report.world.rank == 0).unwrap().pid;
    kill(Pid::from_raw(killed), Signal::SIGKILL).unwrap();
    let before: BTreeSet<i32> = second.iter().map(|report| report.pid).collect();
    let is_back = |world: &[WorldReport]| world.len() == 4 && world.iter().any(|report| !before.contains(&report.pid));
    let third = world_reports::await_world(&job.folder, is_back);
    world_reports::assert_world(&third, &before);
    assert!(third.iter().all(|report| report.pid != killed));

    job.folder.let_go();
    end_well(nodes);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

#[test]
fn every_world_has_a_store_of_its_own() {
    python_or_skip!();
    let job = job(2);
    let mut nodes = vec![job.node(1, &worker("")), job.node(1, &worker(""))];
    let count = |world: &[WorldReport]| -> Vec<i64> {
        world.iter().map(|report| StoreClient::connect(report.store()).unwrap().add("/n", 1).unwrap()).collect()
    };
    let first = world_reports::await_world(&job.folder, |world| world.len() == 2);
    assert_eq!(count(&first), [1, 2], "what one adds the other sees");
    nodes.push(one_more(&job, 2, &worker("")));
    let second = world_reports::await_world(&job.folder, |world| world.len() == 3);
    assert_eq!(count(&second), [1, 2, 3], "nothing of the first world is left");
    assert_ne!(first[0].world.store_prefix, second[0].world.store_prefix);
    job.folder.let_go();
    end_well(nodes);
}

#[test]
fn a_worker_that_ignores_the_socket_is_restarted_and_the_others_are_not() {
    python_or_skip!();
    let job = job(2);
    let stranger = format!("echo $$ $RANK >> strangers; {WAIT}");
    let mut nodes = vec![job.node(1, &worker("")), job.node(1, &stranger)];
    let [first] = &world_reports::await_world(&job.folder, |world| world.len() == 1)[..] else {
        panic!("one worker has reported")
    };
    job.folder.await_lines("strangers", 1);
    // It misses its rank outside the world.
    nodes.push(one_more(&job, 2, &format!(": ${{RANK:?}}; {stranger}")));
    let is_larger = |world: &[WorldReport]| world.iter().all(|report| report.world.world_size == 3);
    let [second] = &world_reports::await_world(&job.folder, is_larger)[..] else { panic!("one worker has reported") };
    assert_eq!((second.pid, second.world.rank), (first.pid, 0), "it continues, and has the model");
    assert_eq!(second.world.survivors, [0]);
    let lines = job.folder.await_lines("strangers", 3);
    let pids: BTreeSet<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(pids.len(), 3, "the stranger was started again: {lines:?}");
    job.folder.let_go();
    end_well(nodes);
}

#[test]
fn invalid_messages_on_the_socket_are_refused_and_affect_no_other_client() {
    python_or_skip!();
    let job = job(1);
    let mut nodes = vec![job.node(1, &worker("odd"))];
    let [first] = &world_reports::await_world(&job.folder, |world| world.len() == 1)[..] else {
        panic!("one worker has reported")
    };
    let refused = job.folder.lines("refused");
    let odd = ["garbage", "no message", "a line too long", "no name", "no worker"].map(|what| format!("{what:?}"));
    assert_eq!(refused, odd, "{}", nodes[0].stderr());
    nodes.push(one_more(&job, 1, &worker("")));
    let second = world_reports::await_world(&job.folder, |world| world.len() == 2);
    world_reports::assert_world(&second, &BTreeSet::from([first.pid]));
    job.folder.let_go();
    end_well(nodes);
}

#[test]
fn a_worker_that_closes_the_socket_is_restarted_as_if_it_had_not_opted_in() {
    python_or_skip!();
    let job = job(1);
    let mut nodes = vec![job.node(1, &worker("hangs-up"))];
    let [first] = &world_reports::await_world(&job.folder, |world| world.len() == 1)[..] else {
        panic!("one worker has reported")
    };
    nodes.push(one_more(&job, 1, &worker("")));
    let second = world_reports::await_world(&job.folder, |world| world.len() == 2);
    assert!(second.iter().all(|report| report.pid != first.pid && report.world.survivors.is_empty()), "{second:?}");
    job.folder.let_go();
    end_well(nodes);
}

#[test]
fn the_world_forms_without_a_worker_that_died_while_it_was_asked_to_meet() {
    python_or_skip!();
    let job = job(3);
    // A second process of it takes its time.
    let dying = format!("if [ -e lost ]; then {WAIT}; fi; {}", worker("dies"));
    let nodes = [worker("loses-peers"), worker("loses-peers"), dying].map(|script| job.node(1, &script));
    let first = world_reports::await_world(&job.folder, |world| world.len() == 3);
    std::fs::write(job.folder.path().join("lost"), "").unwrap();
    let second = world_reports::await_world(&job.folder, |world| world[0].world.round > first[0].world.round);
    assert!(second.iter().all(|report| report.world.world_size == 2), "{second:?}");
    job.folder.let_go();
    end_well(nodes);
}

/// A node with one worker that has a second for each change.
fn hasty_node(job: &Job, script: &str) -> Launcher {
    let one = ["--nproc-per-node=1", "--rdzv-conf=change_timeout=1", "sh", "-c", script];
    Launcher::start(job.command().args(one))
}

#[test]
fn a_worker_that_does_not_leave_its_world_in_time_is_restarted() {
    python_or_skip!();
    let job = job(1);
    let mut nodes = vec![hasty_node(&job, &worker("stays"))];
    let [first] = &world_reports::await_world(&job.folder, |world| world.len() == 1)[..] else {
        panic!("one worker has reported")
    };
    nodes.push(one_more(&job, 1, &worker("")));
    let second = world_reports::await_world(&job.folder, |world| world.len() == 2);
    assert_eq!(job.folder.lines("asked"), [first.pid.to_string()]);
    assert!(second.iter().all(|report| report.pid != first.pid && report.world.survivors.is_empty()), "{second:?}");
    job.folder.let_go();
    end_well(nodes);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}

#[test]
fn a_worker_that_does_not_enter_its_assigned_world_is_restarted() {
    python_or_skip!();
    let job = job(1);
    let mut nodes = vec![hasty_node(&job, &worker("never-joins"))];
    let [first] = &world_reports::await_world(&job.folder, |world| world.len() == 1)[..] else {
        panic!("one worker has reported")
    };
    nodes.push(one_more(&job, 1, &worker("")));
    let second = world_reports::await_world(&job.folder, |world| world.len() == 2);
    world_reports::assert_world(&second, &BTreeSet::from([first.pid]));
    let is_replaced = |world: &[WorldReport]| world.len() == 2 && world.iter().all(|report| report.pid != first.pid);
    world_reports::await_world(&job.folder, is_replaced);
    job.folder.let_go();
    end_well(nodes);
    assert_eq!(job.run()["programFailures"], 0, "{}", job.run());
}
