//! Tests the start order of init containers, sidecars and containers.

use flexor_local::pods::status::{ContainerState, PodPhase};

use super::{how, pod, state};

#[test]
fn init_containers_run_one_after_the_other_before_the_containers() {
    let slow = "sleep 0.2; echo first >> order";
    let design = pod().init("first", slow).init("second", "echo second >> order").main("main", "echo main >> order");
    let mut pod = design.start();
    let status = pod.wait();
    assert_eq!(pod.work.lines("order"), ["first", "second", "main"]);
    assert_eq!(status.phase, PodPhase::Succeeded);
    for container in ["first", "second", "main"] {
        assert_eq!(how(&status, container), (0, "Completed".to_owned()));
    }
    let init: Vec<bool> = status.containers.iter().map(|container| container.init).collect();
    assert_eq!(init, [true, true, false]);
}

#[test]
fn no_other_container_runs_when_an_init_container_fails() {
    let never = "touch never";
    let mut pod = pod().init("good", "true").init("bad", "exit 3").init("next", never).main("main", never).start();
    let status = pod.wait();
    assert_eq!(status.phase, PodPhase::Failed);
    assert_eq!(how(&status, "bad"), (3, "Error".to_owned()));
    for container in ["next", "main"] {
        assert!(matches!(state(&status, container), ContainerState::Waiting(_)), "{status:?}");
    }
    assert!(!pod.work.path().join("never").exists());
}

#[test]
fn a_sidecar_is_there_before_the_containers_and_goes_after_them() {
    let sidecar = "trap 'echo sidecar ends >> order; exit 0' TERM; echo sidecar >> order; touch go
        while :; do sleep 0.02; done";
    let main = "while [ ! -e go ]; do sleep 0.02; done; echo main >> order; exit 4";
    let mut pod = pod().sidecar("sidecar", sidecar).main("main", main).start();
    let status = pod.wait();
    assert_eq!(pod.work.lines("order"), ["sidecar", "main", "sidecar ends"]);
    assert_eq!((status.phase, how(&status, "main").0, how(&status, "sidecar").0), (PodPhase::Failed, 4, 0));
}

#[test]
fn the_exit_of_a_sidecar_does_not_decide_the_phase_of_the_pod() {
    let stubborn = "trap '' TERM; touch go; while :; do sleep 0.02; done";
    let main = "while [ ! -e go ]; do sleep 0.02; done";
    let mut pod = pod().sidecar("sidecar", stubborn).main("main", main).grace(200).start();
    let status = pod.wait();
    assert_eq!((status.phase, how(&status, "sidecar").0), (PodPhase::Succeeded, 137));
}

#[test]
fn containers_run_together_and_the_pod_ends_with_the_last() {
    let one = "touch one; while [ ! -e two ]; do sleep 0.02; done; exit 5";
    let two = "touch two; while [ ! -e one ]; do sleep 0.02; done; sleep 0.3; echo two >> order";
    let mut pod = pod().main("one", one).main("two", two).start();
    let status = pod.wait();
    assert_eq!(pod.work.lines("order"), ["two"], "the failure of one does not end the other");
    assert_eq!((status.phase, how(&status, "one").0, how(&status, "two").0), (PodPhase::Failed, 5, 0));
}
