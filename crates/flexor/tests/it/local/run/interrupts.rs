//! Tests Ctrl-C, SIGTERM, SIGHUP and SIGQUIT: the first ends pods with their grace period, the second at once. Nothing is left behind.

use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::super::launch::folder::WAIT;
use super::super::launch::launcher::{Launcher, LauncherOutput};
use super::cluster::{LocalPod, Workspace, job_of};

const POLITE: &str =
    "trap 'sleep 0.3; echo ended >> ends; exit 0' TERM; echo begun >> begins; while :; do sleep 0.02; done";
const STUBBORN: &str = "trap '' TERM; echo begun >> begins; while :; do sleep 0.02; done";

/// A job of two workers that have all started.
fn begun(workspace: &Workspace, job: &Value) -> (Launcher, Vec<LocalPod>) {
    let run = workspace.run_for_good(&[&workspace.manifest(job)]);
    workspace.folder.await_lines("begins", 2);
    let name = job["metadata"]["name"].as_str().unwrap();
    let pods = ["master", "worker-0", "worker-1"].map(|pod| workspace.await_running(&format!("{name}-{pod}")));
    (run, pods.into())
}

fn once(signal: Signal) -> LauncherOutput {
    let workspace = Workspace::new();
    let (run, pods) = begun(&workspace, &job_of("polite", 2, POLITE));
    run.signal(signal);
    let ended = run.wait_for(130);
    assert_eq!(workspace.folder.lines("ends").len(), 2, "both had time to end");
    workspace.assert_nothing_is_left_of(&pods);
    ended
}

#[test]
fn ctrl_c_lets_programs_end_and_leaves_nothing_behind() {
    let ended = once(Signal::SIGINT);
    assert_eq!(ended.stderr, "interrupted: all pods end within their grace period; Ctrl-C again kills them\n");
}

#[test]
fn sigterm_is_no_success_either() {
    once(Signal::SIGTERM);
}

#[test]
fn a_closed_terminal_ends_the_cluster_with_summary_and_report() {
    for signal in [Signal::SIGHUP, Signal::SIGQUIT] {
        let workspace = Workspace::new();
        let manifest = workspace.manifest(&job_of("polite", 2, POLITE));
        let run = workspace.run_for_good(&[&manifest, "--report", "report"]);
        workspace.folder.await_lines("begins", 2);
        run.signal(signal);
        let ended = run.wait_for(130);
        assert_eq!(workspace.folder.lines("ends").len(), 2, "both had time to end");
        assert!(ended.stdout.trim_end().ends_with("pods started again: 0"), "the summary: {}", ended.stdout);
        assert!(workspace.folder.path().join("report/report.json").exists(), "{signal}");
        workspace.assert_nothing_is_left_of(&[]);
    }
}

#[test]
fn a_second_hangup_does_not_cut_the_grace_period() {
    let workspace = Workspace::new();
    let (run, pods) = begun(&workspace, &job_of("polite", 2, POLITE));
    run.signal(Signal::SIGHUP);
    run.await_stderr("Ctrl-C again kills them");
    run.signal(Signal::SIGHUP);
    run.wait_for(130);
    assert_eq!(workspace.folder.lines("ends").len(), 2, "both had time to end");
    workspace.assert_nothing_is_left_of(&pods);
}

#[test]
fn under_nohup_a_closed_terminal_changes_nothing() {
    let workspace = Workspace::new();
    let manifest = workspace.manifest(&job_of("polite", 2, &format!("echo begun >> begins; {WAIT}")));
    let command = workspace.command(&[&manifest]);
    let mut nohup = Command::new("nohup");
    nohup.arg(command.get_program()).args(command.get_args()).current_dir(workspace.folder.path());
    let run = Launcher::start(&mut nohup);
    workspace.folder.await_lines("begins", 2);
    run.signal(Signal::SIGHUP);
    workspace.folder.let_go();
    run.wait_for(0);
}

#[test]
fn ctrl_c_twice_kills_and_leaves_nothing_behind() {
    let workspace = Workspace::new();
    let (run, pods) = begun(&workspace, &job_of("stubborn", 2, STUBBORN));
    let signalled_at = Instant::now();
    run.signal(Signal::SIGINT);
    run.await_stderr("Ctrl-C again kills them");
    run.signal(Signal::SIGINT);
    run.wait_for(130);
    assert!(signalled_at.elapsed() < Duration::from_secs(20), "their grace is 30 s: {:?}", signalled_at.elapsed());
    workspace.assert_nothing_is_left_of(&pods);
}
