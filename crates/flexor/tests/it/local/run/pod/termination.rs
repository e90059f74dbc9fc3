//! Tests the termination of pods: with their grace period, at once, and with all processes that they started.

use std::time::{Duration, Instant};

use flexor_local::pods::status::PodPhase;
use nix::sys::signal::Signal;

use super::super::super::faults::deadline::eventually;
use super::super::super::launch::launcher::await_gone;
use super::{how, pod};

/// A program that ignores SIGTERM, and creates a file when it does.
const STUBBORN: &str = "trap '' TERM; touch go; while :; do sleep 0.02; done";

#[test]
fn a_program_has_time_to_end() {
    let design = pod()
        .main("main", "trap 'sleep 0.3; echo ended >> order; exit 7' TERM; touch go; while :; do sleep 0.02; done");
    let mut pod = design.start();
    eventually("the program", || pod.work.path().join("go").exists().then_some(()));
    pod.signal(Signal::SIGTERM);
    let status = pod.wait();
    assert_eq!(pod.work.lines("order"), ["ended"]);
    assert_eq!((status.phase, how(&status, "main")), (PodPhase::Failed, (7, "Error".to_owned())));
    assert_eq!(
        (status.reason.as_deref(), status.message.as_deref()),
        (Some("Terminated"), Some("the pod received SIGTERM"))
    );
}

#[test]
fn a_program_that_does_not_end_is_killed_after_the_grace() {
    let mut pod = pod().main("main", STUBBORN).grace(400).start();
    eventually("the program", || pod.work.path().join("go").exists().then_some(()));
    let requested_at = Instant::now();
    pod.signal(Signal::SIGTERM);
    assert_eq!(how(&pod.wait(), "main"), (137, "Error".to_owned()));
    assert!(requested_at.elapsed() >= Duration::from_millis(400), "{:?}", requested_at.elapsed());
}

#[test]
fn containers_share_the_grace() {
    let both = |number: u32| STUBBORN.replace("go", &format!("go{number}"));
    let design = pod().sidecar("sidecar", &both(0)).main("one", &both(1)).main("two", &both(2)).grace(4000);
    let mut pod = design.start();
    eventually("the programs", || {
        (0..3).all(|number| pod.work.path().join(format!("go{number}")).exists()).then_some(())
    });
    let requested_at = Instant::now();
    pod.signal(Signal::SIGTERM);
    let status = pod.wait();
    for container in ["sidecar", "one", "two"] {
        assert_eq!(how(&status, container).0, 137);
    }
    assert!(requested_at.elapsed() < Duration::from_millis(8000), "one grace for all: {:?}", requested_at.elapsed());
}

#[test]
fn a_second_request_ends_a_pod_at_once() {
    let mut pod = pod().main("main", &STUBBORN.replace("trap ''", "trap 'touch told'")).start();
    eventually("the program", || pod.work.path().join("go").exists().then_some(()));
    let requested_at = Instant::now();
    pod.signal(Signal::SIGTERM);
    // Two pending signals merge into one.
    eventually("the first to be passed on", || pod.work.path().join("told").exists().then_some(()));
    pod.signal(Signal::SIGTERM);
    assert_eq!(how(&pod.wait(), "main").0, 137);
    assert!(requested_at.elapsed() < Duration::from_secs(30), "{:?}", requested_at.elapsed());
}

#[test]
fn children_and_daemons_end_with_the_pod() {
    let script = "setsid sh -c 'echo $$ > daemon; exec sleep 1000' & (sh -c 'trap \"\" TERM; echo $$ > orphan; while :; do sleep 0.1; done' &)
        sh -c 'echo $$ > child; exec sleep 1000'";
    let mut pod = pod().main("main", script).grace(300).start();
    let ids: Vec<String> = ["daemon", "orphan", "child"].map(|name| pod.work.await_lines(name, 1).remove(0)).into();
    pod.signal(Signal::SIGTERM);
    pod.wait();
    ids.iter().for_each(|id| await_gone(id));
}

#[test]
fn processes_of_a_container_end_with_it() {
    let leaver = "setsid sh -c 'echo $$ > left; exec sleep 1000' & while [ ! -e left ]; do sleep 0.02; done";
    let mut pod = pod().main("leaver", leaver).main("other", "while [ ! -e go ]; do sleep 0.02; done").start();
    let left = pod.work.await_lines("left", 1).remove(0);
    await_gone(&left);
    assert_eq!(pod.status().unwrap().phase, PodPhase::Running, "the other container goes on");
    pod.work.let_go();
    assert_eq!(pod.wait().phase, PodPhase::Succeeded);
}

#[test]
fn a_pod_ends_at_once_with_its_owner() {
    let mut pod = pod().sidecar("sidecar", "sleep 1000").main("main", STUBBORN).start_owned();
    eventually("the program", || pod.work.path().join("go").exists().then_some(()));
    pod.owner = None;
    let status = pod.wait();
    assert_eq!((status.phase, how(&status, "main").0, how(&status, "sidecar").0), (PodPhase::Failed, 137, 137));
    assert_eq!(status.reason.as_deref(), Some("NodeShutdown"));
}

#[test]
fn programs_do_not_outlive_a_killed_supervisor() {
    let pod = pod()
        .sidecar("sidecar", "echo $$ > one; exec sleep 1000")
        .main("main", "echo $$ > two; exec sleep 1000")
        .start();
    let ids: Vec<String> = ["one", "two"].map(|name| pod.work.await_lines(name, 1).remove(0)).into();
    pod.signal(Signal::SIGKILL);
    ids.iter().for_each(|id| await_gone(id));
}

#[test]
fn a_pod_whose_folder_is_removed_ends_with_its_programs() {
    let quick = "while [ ! -e go ]; do sleep 0.02; done";
    let mut pod = pod().main("quick", quick).main("main", "echo $$ > id; exec sleep 1000").start();
    let id = pod.work.await_lines("id", 1).remove(0);
    std::fs::remove_dir_all(pod.folder().path()).unwrap();
    pod.work.let_go();
    let exit = eventually("the end of its supervisor", || pod.supervisor.try_wait().unwrap());
    assert_eq!(exit.code(), Some(3));
    await_gone(&id);
}
