//! Masters that are gone: launchers wait for them, and programs do not notice.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::super::faults::waiting::{eventually, throughout};
use super::folder::WAIT;
use super::job::Job;
use super::launcher::end_well;

#[test]
fn nobody_notices_a_master_that_is_killed_and_started_again() {
    let mut job = Job::start("2", "0");
    let script = format!("echo $RANK $TORCHELASTIC_RESTART_COUNT >> starts; {WAIT}");
    let nodes = [job.node(2, &script), job.node(2, &script)];
    job.folder.await_lines("starts", 4);
    for _ in 0..2 {
        job.master.end_with(Signal::SIGKILL);
        nodes.iter().for_each(|node| node.await_stderr("dialling again until a master answers"));
        job.start_master_again();
        eventually("both nodes at the new master", || (job.master.members() == 2).then_some(()));
    }
    job.folder.let_go();
    end_well(nodes);
    assert_eq!(job.folder.lines("starts").len(), 4, "everybody was started once");
    assert_eq!(job.run()["programFailures"], 0);
}

#[test]
fn a_program_that_ends_while_the_master_is_away_has_ended() {
    let mut job = Job::start("2", "0");
    let script = format!("echo start >> starts; {WAIT}; echo end >> ends");
    let nodes = [job.node(1, &script), job.node(1, &script)];
    job.folder.await_lines("starts", 2);
    job.master.end_with(Signal::SIGKILL);
    job.folder.let_go();
    job.folder.await_lines("ends", 2);
    job.start_master_again();
    end_well(nodes);
    assert_eq!(job.folder.lines("starts").len(), 2, "nobody was started again");
}

#[test]
fn a_launcher_waits_for_a_master_that_is_not_there_yet_and_says_so_once() {
    let mut job = Job::start("1", "0");
    job.master.end_with(Signal::SIGKILL);
    let mut node = job.node(1, "echo started");
    node.await_stderr("dialling again until a master answers");
    // Long enough to dial several times.
    throughout(Duration::from_secs(2), || assert!(node.is_running()));
    job.start_master_again();
    let ended = node.wait_for(0);
    assert_eq!(ended.stdout, "started\n");
    assert_eq!(ended.stderr.matches("dialling again").count(), 1, "{}", ended.stderr);
}
