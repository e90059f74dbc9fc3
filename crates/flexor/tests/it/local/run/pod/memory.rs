//! What containers may have of memory, and what a parent itself takes.

use std::fs;

use flexor_local::pods::status::PodPhase;

use super::super::super::launch::launcher::await_gone;
use super::{end, how, pod};

#[test]
fn a_program_that_takes_more_than_it_may_is_killed_with_its_children() {
    // The child keeps what it reads until a line ends, which none does.
    let script = "tail -n 1 /dev/zero & echo $! > child; wait";
    let mut pod = pod().main_but("main", script, |main| main.memory = Some(64 << 20)).start();
    let status = pod.wait();
    assert_eq!((status.phase, how(&status, "main")), (PodPhase::Failed, (137, "OOMKilled".to_owned())));
    await_gone(&pod.work.lines("child").remove(0));
}

#[test]
fn a_program_that_stays_below_goes_on() {
    let mut pod = pod().main_but("main", "sleep 0.5", |main| main.memory = Some(64 << 20)).start();
    assert_eq!(end(&pod.wait(), "main").code, 0);
}

#[test]
fn a_kill_by_somebody_else_is_no_want_of_memory() {
    let mut pod = pod().main_but("main", "kill -KILL $$", |main| main.memory = Some(64 << 20)).start();
    assert_eq!(how(&pod.wait(), "main"), (137, "Error".to_owned()));
}

#[test]
fn a_parent_takes_little_memory_of_its_own() {
    // What two of them have of the program itself is shared.
    let pods = [(); 2].map(|()| pod().main("main", "echo begun; sleep 1000").start());
    for pod in &pods {
        pod.await_phase(PodPhase::Running);
    }
    let id = pods[0].parent.id();
    let rollup = fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap();
    let kibibytes = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let (dirty, clean) = (kibibytes("Private_Dirty:"), kibibytes("Private_Clean:"));
    println!("a pod's parent has {} KiB for itself: {dirty} written, {clean} not", dirty + clean);
    assert!(dirty + clean < 8 << 10, "{rollup}");
    let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap().count();
    assert_eq!(threads, 2, "one that waits, and one that reads what programs print");
}
