//! Tests a pod whose output fills the disk of the pods: the job continues, and `describe` reports it.

use std::fs;
use std::process::Command;

use flexor_testbed::skip;

use super::super::faults::deadline::eventually;
use super::super::faults::process::{inside, server};
use super::super::launch::folder::WAIT;
use super::super::launch::launcher::Launcher;
use super::cluster::{Workspace, job_of};

#[test]
fn a_job_that_fills_the_log_disk_continues_and_reports_it() {
    if !nix::unistd::geteuid().is_root() {
        skip!("mounting a small disk needs root");
    }
    let workspace = Workspace::new();
    let script = format!("yes something to be printed | head -c 4000000; touch flooded; {WAIT}");
    let manifest = workspace.manifest(&job_of("wordy", 1, &script));
    // The disk is in the mount namespace of the cluster, and disappears with it.
    let pods = workspace.state_dir().pods();
    fs::create_dir_all(&pods).unwrap();
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--propagation", "private", "sh"]);
    let script = r#"mount -t tmpfs -o size=1m,mode=0700 tmpfs "$0" && exec "$@""#;
    let mut command = inside(shell, script, &pods, workspace.command(&["--ephemeral", &manifest]).env("LC_ALL", "C"));
    let run = Launcher::start(command.current_dir(workspace.folder.path()));
    eventually("the end of the flood", || workspace.folder.path().join("flooded").exists().then_some(()));
    let says = |words: &[&str]| {
        let ran = server(words).arg("--state-dir").arg(workspace.state_dir().path()).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    // That of the sidecar may be cut too.
    let cut = "the log of container elasticjob-worker ends here: No space left on device";
    eventually("an event", || {
        let events = says(&["events"]);
        events.lines().any(|line| line.contains("LogCut") && line.contains(cut)).then_some(())
    });
    let described = says(&["describe", "pod", "wordy-worker-0"]);
    assert!(described.lines().any(|line| line.contains("Log Cut:") && line.contains("No space left")), "{described}");
    workspace.folder.let_go();
    let ended = run.wait_for(0);
    assert!(ended.stdout.contains("LogCut"), "{}", ended.stdout);
}
