//! Tests restarts of containers.

use flexor_local::pods::plan::RestartPolicy;
use flexor_local::pods::status::{ContainerState, PodPhase};
use nix::sys::signal::Signal;

use super::super::super::faults::deadline::eventually;
use super::{end, pod, restarts, state};

/// Fails the first time, and only then.
const SECOND_TIME: &str = "echo life >> lives; [ $(wc -l < lives) -ge 2 ] || { echo not yet; exit 6; }";

#[test]
fn a_container_that_fails_is_started_again_where_the_pod_says_so() {
    let mut pod = pod().main("main", SECOND_TIME).restart(RestartPolicy::OnFailure).start();
    let status = pod.wait();
    assert_eq!((status.phase, restarts(&status, "main")), (PodPhase::Succeeded, 1));
    assert_eq!(end(&status, "main").message, None, "the second run does not inherit from the first");
    assert_eq!(pod.log("main"), "not yet\n", "the log goes on");
}

#[test]
fn a_failed_container_stays_failed_by_default() {
    let mut pod = pod().main("main", SECOND_TIME).start();
    let status = pod.wait();
    assert_eq!((status.phase, restarts(&status, "main")), (PodPhase::Failed, 0));
    assert_eq!(end(&status, "main").message.as_deref(), Some("not yet"));
}

#[test]
fn an_init_container_that_fails_is_tried_again_before_anything_else_runs() {
    let design = pod().init("init", SECOND_TIME).main("main", "cp lives seen").restart(RestartPolicy::Always);
    let pod = design.start();
    eventually("the second run", || (pod.work.lines("seen").len() == 2).then_some(()));
    assert_eq!(restarts(&pod.status().unwrap(), "init"), 1);
}

#[test]
fn a_container_that_is_always_started_again_ends_only_with_the_pod() {
    let mut pod = pod().main("main", "echo life >> lives").restart(RestartPolicy::Always).start();
    pod.work.await_lines("lives", 2);
    let again = || pod.status().filter(|status| restarts(status, "main") == 1 && status.phase == PodPhase::Running);
    eventually("a second run", again);
    pod.signal(Signal::SIGTERM);
    assert_eq!(pod.wait().phase, PodPhase::Failed);
}

#[test]
fn a_sidecar_is_started_again_however_it_ends() {
    let sidecar = "echo life >> lives; [ $(wc -l < lives) -lt 2 ] || sleep 1000";
    let main = "while [ ! -e lives ] || [ $(wc -l < lives) -lt 2 ]; do sleep 0.02; done";
    let mut pod = pod().sidecar("sidecar", sidecar).main("main", main).grace(500).start();
    let status = pod.wait();
    assert_eq!((status.phase, restarts(&status, "sidecar")), (PodPhase::Succeeded, 1));
    assert!(matches!(state(&status, "sidecar"), ContainerState::Terminated { exit_code: 143, .. }), "{status:?}");
}
