//! Tests state directories: one for each cluster, accessible only by its owner.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use flexor_testbed::skip;
use nix::sys::signal::Signal;

use super::super::faults::deadline::eventually;
use super::super::faults::process::server;
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

/// Every way into a state directory.
const WAYS_IN: [&[&str]; 8] = [
    &["run", "job.yaml"],
    &["run", "--resume"],
    &["local", "up", "job.yaml"],
    &["local", "down"],
    &["local", "status"],
    &["get", "pods"],
    &["apply", "-f", "job.yaml"],
    &["kill", "x"],
];

/// A folder with a manifest, and with a state directory in which a job was planted.
fn planted() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("job.yaml"), dlrover("torch-mnist")).unwrap();
    fs::create_dir_all(folder.path().join("home/jobs")).unwrap();
    fs::write(folder.path().join("home/jobs/default.planted.json"), "{}").unwrap();
    folder
}

fn assert_refused(folder: &tempfile::TempDir, why: &str) {
    let home = folder.path().join("home");
    let tree = || {
        let mut entries: Vec<_> = fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        entries.sort();
        entries
    };
    let before = tree();
    for way in WAYS_IN {
        let ran = server(way).args(["--state-dir", "home"]).current_dir(folder.path()).output().unwrap();
        let ran = crate::program::ProgramOutput::from(ran);
        assert_ne!(ran.code, 0, "{way:?}: {}", ran.stdout);
        assert!(ran.stderr.contains(why) && ran.stderr.contains("--state-dir"), "{way:?}: {}", ran.stderr);
        assert_eq!(tree(), before, "{way:?} changes nothing");
    }
}

#[test]
fn a_state_directory_that_others_can_write_to_is_refused() {
    let folder = planted();
    fs::set_permissions(folder.path().join("home"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_refused(&folder, "other users can write to");
}

#[test]
fn a_state_directory_of_another_user_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        skip!("only root can give a directory to another user");
    }
    let folder = planted();
    std::os::unix::fs::chown(folder.path().join("home"), Some(65534), None).unwrap();
    assert_refused(&folder, "belongs to user 65534");
}

#[test]
fn a_planted_part_of_a_state_directory_is_refused() {
    let folder = planted();
    let home = folder.path().join("home");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(home.join("jobs/default.planted.json"), fs::Permissions::from_mode(0o666)).unwrap();
    for way in [&["run", "job.yaml"][..], &["run", "--resume"], &["local", "up"], &["local", "down"]] {
        let ran = server(way).args(["--state-dir", "home"]).current_dir(folder.path()).output().unwrap();
        let stderr = String::from_utf8(ran.stderr).unwrap();
        assert!(!ran.status.success() && stderr.contains("default.planted.json"), "{way:?}: {stderr}");
    }
}
