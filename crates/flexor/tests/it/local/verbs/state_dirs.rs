//! Tests state directories: one for each cluster, accessible only by its owner.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;

use super::super::faults::deadline::eventually;
use super::super::launch::launcher::Launcher;
use super::laptop::{Laptop, dlrover};
use crate::program::run;

#[test]
fn two_clusters_side_by_side_are_independent() {
    let (one, two) = (Laptop::with(&[dlrover("first")]), Laptop::with(&[dlrover("second")]));
    for (laptop, name) in [(&one, "first"), (&two, "second")] {
        let names = laptop.says(&["get", "elasticjobs", "-A", "-o", "name"]);
        assert_eq!(names, format!("elasticjob.elastic.iml.github.io/{name}\n"));
    }
}

#[test]
fn only_the_owner_can_open_the_socket_and_it_is_removed_with_the_cluster() {
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let mode = |path: std::path::PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(laptop.state_dir()), mode(laptop.state_dir().join("socket"))), (0o700, 0o600));
    let (state_dir, socket) = (laptop.state_dir(), laptop.state_dir().join("socket"));
    laptop.folder.let_go();
    let Laptop { run, folder } = laptop;
    run.wait_for(0);
    assert!(!socket.exists(), "{}", state_dir.display());
    drop(folder);
}

#[test]
fn without_a_cluster_the_next_step_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let state_dir = folder.path().join("none");
    let hint = |state_dir: &std::path::Path| {
        let state_dir = state_dir.display();
        format!(
            "error: no laptop cluster runs in {state_dir}; start one with `flexor local up` or `flexor run FILE`, or name its \
             folder with --state-dir\n"
        )
    };
    for words in [&["get", "pods"][..], &["describe", "pods"], &["logs", "x"], &["events"], &["top"], &["kill", "x"]] {
        let ran = run(&[words, &["--state-dir", state_dir.to_str().unwrap()]].concat());
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr), (3, "", hint(&state_dir)), "{words:?}");
    }
    // One that was killed has left its socket behind.
    let laptop = Laptop::with(&[dlrover("torch-mnist")]);
    let watch = Launcher::start(&mut laptop.command(&["events", "-w"]));
    watch.await_stdout("PodWanted", 3);
    laptop.run.signal(Signal::SIGKILL);
    let output = watch.wait_for(3).stderr;
    assert!(output.starts_with("error: the laptop cluster does not answer any more: "), "{output}");
    let socket = laptop.state_dir().join("socket");
    let hint = format!(
        "error: no laptop cluster runs in {}, but one that was killed has left torch-mnist; `flexor run --resume` or \
         `flexor local up` goes on with them, `flexor local down` ends them\n",
        laptop.state_dir().display()
    );
    eventually("a cluster that is not there", || {
        let ran = laptop.flexor(&["get", "pods"]);
        (ran.code == 3 && ran.stderr == hint).then_some(())
    });
    assert!(socket.exists());
}
