//! Tests how jobs end when nodes finish at different times or are lost.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::super::faults::deadline::{eventually, throughout};
use super::folder::{Folder, WAIT};
use super::job::Job;
use super::launcher::{Launcher, end_well, launch, standalone};
use super::worlds::free_port;

#[test]
fn nodes_that_finish_at_different_times_all_succeed_without_a_restart() {
    let job = Job::start("3", "0");
    let quick = "echo start >> starts; echo quick >> ends";
    let slow = format!("echo start >> starts; {WAIT}; echo slow >> ends");
    let mut nodes = [job.node(2, quick), job.node(1, &slow), job.node(1, quick)];
    job.folder.await_lines("ends", 3);
    // The world is still running: finished nodes wait.
    throughout(Duration::from_secs(1), || assert!(nodes.iter_mut().all(Launcher::is_running)));
    job.folder.let_go();
    end_well(nodes);
    assert_eq!(job.folder.lines("starts").len(), 4, "each process was started once");
    assert_eq!(job.folder.lines("ends").len(), 4);
}

#[test]
fn finished_nodes_succeed_when_the_last_one_is_lost() {
    let job = Job::start("2:3", "0");
    let quick = "echo start >> starts; echo quick >> ends";
    let slow = format!("echo start >> starts; {WAIT}");
    let [a, b] = [job.node(1, quick), job.node(1, quick)];
    let lost = job.node(1, &slow);
    job.folder.await_lines("starts", 3);
    // The program has ended there, and the master knows.
    eventually("two finished nodes", || (job.master.log().matches("finished run=").count() == 2).then_some(()));
    lost.signal(Signal::SIGKILL);
    end_well([a, b]);
    assert_eq!(job.folder.lines("starts").len(), 3, "no process was restarted");
}

#[test]
fn a_finished_node_restarts_when_the_program_fails_on_another() {
    let job = Job::start("2", "1");
    let quick = job.node(1, "echo start >> starts; echo quick >> ends");
    let failing = job.node(1, "[ -e failed ] && exit 0; until [ -e ends ]; do sleep 0.05; done; echo > failed; exit 1");
    end_well([quick, failing]);
    assert_eq!(job.folder.lines("starts").len(), 2, "a world trains together or not at all");
}

#[test]
fn a_process_that_fails_after_others_of_its_node_have_finished_starts_all_again() {
    let job = Job::start("1", "1");
    let script = "echo $RANK >> starts; case $RANK$TORCHELASTIC_RESTART_COUNT in \
                  00) echo ended > ended;; 10) until [ -e ended ]; do sleep 0.05; done; exit 1;; esac";
    job.node(2, script).wait_for(0);
    assert_eq!(job.folder.lines("starts").len(), 4);
}

#[test]
fn a_node_that_joins_after_the_end_starts_nothing() {
    let job = Job::start("1", "0");
    job.node(1, "true").wait_for(0);
    let late = job.node(1, "echo started").wait_for(0);
    assert_eq!(late.stdout, "");
}

#[test]
fn a_node_that_stays_alone_gives_up_after_its_timeout() {
    let job = Job::start("2", "0");
    let args = ["--rdzv-conf=join_timeout=4", "sh", "-c", "echo started"];
    let ended = Launcher::start(job.command().args(args)).wait_for(3);
    assert!(ended.stdout.is_empty() && ended.stderr.contains("join_timeout"), "{}", ended.stderr);
    // After some seconds, and again with the error.
    let reason = format!("waited for other nodes at the master at {}: ", job.master.ports.grpc);
    assert!(ended.stderr.contains(&reason), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("1 of at least 2 nodes have joined").count(), 2, "{}", ended.stderr);
    assert!(ended.stderr.contains(&reason.replacen("waited", "waits", 1)), "{}", ended.stderr);
}

#[test]
fn a_node_without_a_master_reports_it_after_its_timeout() {
    let folder = Folder::new();
    let endpoint = format!("127.0.0.1:{}", free_port());
    let args = ["--rdzv-backend=c10d", "--rdzv-endpoint", &endpoint, "--rdzv-conf=join_timeout=1", "true"];
    let ended = Launcher::start(&mut launch(&folder, args)).wait_for(3);
    assert!(ended.stderr.contains("join_timeout; it waited for the master: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("Connection refused"), "{}", ended.stderr);
}

#[test]
fn a_launch_of_one_machine_leaves_nothing_in_its_folder() {
    let folder = Folder::new();
    let ended = standalone(&folder, &["--nproc-per-node=4"], "true");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    assert!(folder.tree().is_empty(), "{:?}", folder.tree());
}
