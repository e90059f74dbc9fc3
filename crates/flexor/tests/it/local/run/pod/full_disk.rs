//! Tests a full disk under the logs or the status of a pod.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flexor_local::pods::status::{PodPhase, PodStatus};
use flexor_testbed::skip;

use super::super::super::faults::deadline::{eventually, throughout};
use super::{end, pod, state_dir};

#[test]
fn a_program_goes_on_when_its_log_cannot() {
    if !nix::unistd::geteuid().is_root() {
        skip!("mounting a small disk needs root");
    }
    let script = "yes something to be printed | head -c 4000000; touch flooded; while [ ! -e go ]; do sleep 0.02; done";
    let mut pod = pod().main("main", script).main("quiet", "true").log_disk("64k").start();
    eventually("the end of the flood", || pod.work.path().join("flooded").exists().then_some(()));
    let message = eventually("a word about it while it runs", || {
        let main = pod.status()?.containers.into_iter().find(|container| container.name == "main")?;
        main.log_cut
    });
    assert!(message.contains("No space left on device"), "{message}");
    pod.work.let_go();
    let status = pod.wait();
    assert_eq!((status.phase, end(&status, "main").code), (PodPhase::Succeeded, 0));
    let cut: Vec<bool> = status.containers.iter().map(|container| container.log_cut.is_some()).collect();
    assert_eq!(cut, [true, false]);
}

#[test]
fn how_a_pod_ended_is_written_when_there_is_room() {
    if !nix::unistd::geteuid().is_root() {
        skip!("mounting a small disk needs root");
    }
    let mut pod = pod().main("main", "while [ ! -e go ]; do sleep 0.02; done").status_disk("16k").start();
    // Only the supervisor sees the disk; a process that has it open keeps it.
    let seen = Path::new("/proc").join(pod.supervisor.id().to_string()).join("root");
    let status = seen.join(state_dir(&pod.work).status().strip_prefix("/").unwrap());
    eventually("the supervisor's first status", || status.join("the-pod.json").exists().then_some(()));
    let held = File::open(status).unwrap();
    let disk = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    let read = || -> PodStatus { serde_json::from_slice(&fs::read(disk.join("the-pod.json")).unwrap()).unwrap() };
    eventually("a pod that runs", || (read().phase == PodPhase::Running).then_some(()));
    let filler = disk.join("filler");
    assert_eq!(fs::write(&filler, [0; 64 << 10]).unwrap_err().kind(), ErrorKind::StorageFull);
    pod.work.let_go();
    throughout(Duration::from_millis(1500), || {
        assert_eq!(pod.supervisor.try_wait().unwrap(), None, "it waits for room");
    });
    assert_eq!(read().phase, PodPhase::Running);
    fs::remove_file(filler).unwrap();
    let exit = eventually("the end of a pod's supervisor", || pod.supervisor.try_wait().unwrap());
    assert!(exit.success(), "{exit}");
    assert_eq!(read().phase, PodPhase::Succeeded);
}
