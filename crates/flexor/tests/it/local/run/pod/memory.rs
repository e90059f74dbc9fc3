//! Tests memory limits of containers with and without cgroups, and the memory of a supervisor.

use std::fs;

use flexor_local::limits::{self, Cgroup, LimitsMode};
use flexor_local::pods::plan::RestartPolicy;
use flexor_local::pods::status::{ContainerState, PodPhase, PodStatus};
use flexor_testbed::skip;
use nix::sys::signal::Signal;

use super::super::super::faults::deadline::eventually;
use super::super::super::launch::launcher::await_gone;
use super::{Pod, PodBuilder, end, how, pod, state, state_dir};

const LIMIT: u64 = 64 << 20;
const BOTH: [LimitsMode; 2] = [LimitsMode::Best, LimitsMode::Watched];

/// A pod whose container has a memory limit.
fn limited(script: &str, limits: LimitsMode) -> PodBuilder {
    pod().main_but("main", script, |main| main.memory = Some(LIMIT)).limits(limits)
}

/// The groups that its container has, if it has any.
fn group(status: &PodStatus) -> Option<Cgroup> {
    status.containers[0].limited.as_ref()?.group().cloned()
}

/// The cgroups of the main container of a running pod, and of its supervisor.
fn memberships(pod: &Pod) -> [String; 2] {
    let status = pod.await_phase(PodPhase::Running);
    let ContainerState::Running { pid, .. } = state(&status, "main") else { panic!("{status:?}") };
    pod.work.await_lines("begun", 1);
    [*pid, pod.supervisor.id()].map(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap())
}

#[test]
fn a_program_that_takes_more_than_it_may_is_killed() {
    for limits in BOTH {
        // It buffers until a line ends, which none does.
        let status = limited("exec tail -n 1 /dev/zero", limits).start().wait();
        assert_eq!((status.phase, how(&status, "main")), (PodPhase::Failed, (137, "OOMKilled".to_owned())));
    }
}

#[test]
fn memory_of_child_processes_counts_and_all_of_them_end() {
    let quiet_about_it = "tail -n 1 /dev/zero & echo $! > child; wait; sleep 0.05";
    let never_ending = "tail -n 1 /dev/zero & echo $! > child; setsid sleep 1000 & echo $! >> child; wait $!";
    for limits in BOTH {
        for script in [quiet_about_it, never_ending] {
            let mut pod = limited(script, limits).start();
            assert_eq!(how(&pod.wait(), "main"), (137, "OOMKilled".to_owned()), "{limits:?} {script}");
            pod.work.lines("child").iter().for_each(|child| await_gone(child));
        }
    }
}

#[test]
fn a_program_that_stays_just_below_goes_on() {
    // The second process sees the end of its input after reading everything; the third does not need it before it ends.
    let script = "head -c 58000000 /dev/zero | tail -c 58000000 | sleep 0.7";
    for limits in BOTH {
        assert_eq!(end(&limited(script, limits).start().wait(), "main").code, 0, "{limits:?}");
    }
}

#[test]
fn a_kill_from_outside_is_no_oom_kill() {
    for limits in BOTH {
        let status = limited("kill -KILL $$", limits).start().wait();
        assert_eq!(how(&status, "main"), (137, "Error".to_owned()), "{limits:?}");
    }
}

#[test]
fn the_status_names_how_the_limit_is_enforced() {
    let message =
        |limits: LimitsMode| limited("true", limits).start().wait().containers[0].limited.clone().unwrap().to_string();
    assert_eq!(
        message(LimitsMode::Watched),
        "64Mi best effort: looked at ten times a second, because that was asked for"
    );
    let best = message(LimitsMode::Best);
    assert!(
        ["64Mi by cgroup v1", "64Mi by cgroup v2"].contains(&&*best) || best.starts_with("64Mi best effort: "),
        "{best}"
    );
}

#[test]
fn a_container_with_a_limit_has_a_cgroup_and_others_have_none() {
    let free = pod().main("main", "echo > begun; sleep 1000").start();
    let [program, supervisor] = memberships(&free);
    assert_eq!(program, supervisor);
    let mut pod = limited("echo > begun; while [ ! -e go ]; do sleep 0.02; done", LimitsMode::Best).start();
    let [program, supervisor] = memberships(&pod);
    let Some(group) = group(&pod.status().unwrap()) else { skip!("no control group can be made here") };
    assert_ne!(program, supervisor);
    assert!(program.contains("/the-pod/main\n"), "{program}");
    for file in ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max"] {
        if let Ok(text) = fs::read_to_string(group.memory.join(file)) {
            assert_eq!(text.trim(), LIMIT.to_string(), "{file}: memory and swap together have no more");
        }
    }
    if let Ok(swap) = fs::read_to_string(group.memory.join("memory.swap.max")) {
        assert_eq!(swap.trim(), "0");
    }
    pod.work.let_go();
    pod.wait();
    assert!(group.folders().all(|folder| !folder.exists()), "it goes with the pod");
    assert!(!group.memory.ancestors().nth(2).unwrap().exists(), "and so does what is empty then");
}

#[test]
fn a_cgroup_is_removed_by_another_process_when_the_supervisor_was_killed() {
    let mut pod = limited("sleep 1000 & setsid sleep 1000 & wait", LimitsMode::Best).start();
    let Some(group) = group(&pod.await_phase(PodPhase::Running)) else { skip!("no control group can be made here") };
    pod.signal(Signal::SIGKILL);
    pod.supervisor.wait().unwrap();
    assert!(group.memory.exists());
    limits::forget_pod(&state_dir(&pod.work), super::UID);
    assert!(group.folders().all(|folder| !folder.exists()));
}

#[test]
fn a_container_that_is_started_again_has_its_limit_again() {
    let script = "echo life >> lives; [ $(wc -l < lives) = 2 ] || exit 6; exec tail -n 1 /dev/zero";
    let pod = limited(script, LimitsMode::Best).restart(RestartPolicy::OnFailure).start();
    let killed = eventually("the end of its second run", || {
        let main = pod.status()?.containers.remove(0);
        (main.restarts == 1 && matches!(main.state, ContainerState::Terminated { .. })).then_some(main.state)
    });
    let ContainerState::Terminated { reason, .. } = killed else { panic!("{killed:?}") };
    assert_eq!(reason, "OOMKilled");
}

#[test]
fn a_supervisor_uses_little_memory() {
    // Two supervisors share the memory of the program itself.
    let pods = [(); 2].map(|()| pod().main("main", "echo begun; sleep 1000").start());
    for pod in &pods {
        pod.await_phase(PodPhase::Running);
    }
    let id = pods[0].supervisor.id();
    let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap();
    let kibibytes = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let written = kibibytes("Private_Dirty:");
    println!("a pod's supervisor has written to {written} KiB of memory");
    assert!(written <= 1 << 10, "{rollup}");
    let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap().count();
    assert_eq!(threads, 2, "one that waits, and one that reads what programs print");
}
