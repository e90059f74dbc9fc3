//! Tests lost masters: launchers wait for the next one, and programs run on.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::super::faults::deadline::{eventually, throughout};
use super::super::faults::master::JOB;
use super::folder::WAIT;
use super::job::Job;
use super::launcher::{Launcher, end_well};

#[test]
fn no_node_notices_a_master_that_is_killed_and_started_again() {
    let mut job = Job::start("2", "0");
    let script = format!("echo $RANK $TORCHELASTIC_RESTART_COUNT >> starts; {WAIT}");
    let nodes = [job.node(2, &script), job.node(2, &script)];
    job.folder.await_lines("starts", 4);
    for time in 1..=2 {
        job.master.end_with(Signal::SIGKILL);
        nodes.iter().for_each(|node| node.await_stderr_times("dialling again until a master answers", time));
        job.start_master_again();
        nodes.iter().for_each(|node| node.await_stderr_times("the master is back", time));
        eventually("both nodes at the new master", || (job.master.members() == 2).then_some(()));
    }
    job.folder.let_go();
    for node in nodes {
        let output = node.wait_for(0).stderr;
        for (what, times) in [("dialling again", 2), ("the master is back", 2), ("h2", 0), ("waits for", 0)] {
            assert_eq!(output.matches(what).count(), times, "{what}: {output}");
        }
    }
    assert_eq!(job.folder.lines("starts").len(), 4, "each process was started once");
    assert_eq!(job.run()["programFailures"], 0);
}

#[test]
fn a_program_that_ends_during_an_outage_of_the_master_stays_ended() {
    let mut job = Job::start("2", "0");
    let script = format!("echo start >> starts; {WAIT}; echo end >> ends");
    let nodes = [job.node(1, &script), job.node(1, &script)];
    job.folder.await_lines("starts", 2);
    job.master.end_with(Signal::SIGKILL);
    job.folder.let_go();
    job.folder.await_lines("ends", 2);
    job.start_master_again();
    end_well(nodes);
    assert_eq!(job.folder.lines("starts").len(), 2, "no process was restarted");
}

#[test]
fn a_terminated_launcher_does_not_wait_for_an_unreachable_master() {
    let mut job = Job::start("1", "0");
    let script = format!("trap 'exit 0' TERM; echo start >> starts; {WAIT}");
    let node = job.node(4, &script);
    job.folder.await_lines("starts", 4);
    job.master.end_with(Signal::SIGKILL);
    node.await_stderr("dialling again until a master answers");
    let signalled_at = Instant::now();
    node.signal(Signal::SIGTERM);
    node.wait_for(130);
    // A second for the last messages, and the workers' grace period; the rest is for a busy machine.
    assert!(signalled_at.elapsed() < Duration::from_secs(20), "{:?}", signalled_at.elapsed());
}

#[test]
fn the_end_of_a_worker_is_reported_again_until_a_master_has_journaled_it() {
    let mut job = Job::start("1", "0");
    job.post("/api/datasets", r#"{"name":"numbers","records":1,"batch":1}"#);
    let lease = |who: &str| job.post("/api/datasets/numbers/lease", &format!("{{{who},\"waitMs\":1000}}"));
    let leave = "until [ -e leave ]; do sleep 0.05; done; exit 0";
    let who = r#"printf '"worker":"%s","incarnation":%s\n' $FLEXOR_WORKER $FLEXOR_INCARNATION > who"#;
    let node = job.node(2, &format!("if [ $RANK = 0 ]; then {who}; {leave}; fi; {WAIT}"));
    let first = lease(&job.folder.await_lines("who", 1)[0]);
    assert!(first.contains(r#""batches":"#), "{first}");
    fs::write(job.faults(), r#"{"write_error": "ENOSPC"}"#).unwrap();
    job.master.await_log("write_error: Some(NoSpace)");
    fs::write(job.folder.path().join("leave"), "").unwrap();
    eventually("a master that cannot write it down", || (job.master.ready().0 == 503).then_some(()));
    // It has not answered, and is killed before it can.
    job.master.end_with(Signal::SIGKILL);
    fs::remove_file(job.faults()).unwrap();
    job.start_master_again();
    let lease = |who: &str| job.post("/api/datasets/numbers/lease", &format!("{{{who},\"waitMs\":1000}}"));
    // No other worker gets the batch until the end of its holder is known.
    eventually("the batch for another worker", || {
        lease(r#""worker":"other","incarnation":0"#).contains(r#""batches":"#).then_some(())
    });
    job.folder.let_go();
    end_well([node]);
}

#[test]
fn a_launcher_waits_for_a_master_that_is_not_there_yet_and_says_so_once() {
    let mut job = Job::start("1", "0");
    job.master.end_with(Signal::SIGKILL);
    let mut node = job.node(1, "echo started");
    node.await_stderr("dialling again until a master answers");
    // Long enough to dial several times.
    throughout(Duration::from_secs(2), || assert!(node.is_running()));
    node.await_stderr(&format!("waits for the master: the master at http://{}", job.master.ports.grpc));
    job.start_master_again();
    let ended = node.wait_for(0);
    assert_eq!(ended.stdout, "started\n");
    for once in ["dialling again", "waits for", "the master is here"] {
        assert_eq!(ended.stderr.matches(once).count(), 1, "{once}: {}", ended.stderr);
    }
}

/// Starts a master without the journal of its predecessor.
fn start_master_without_memory(job: &mut Job) {
    fs::remove_dir_all(job.folder.path().join(format!("state-{JOB}"))).unwrap();
    job.start_master_again();
}

#[test]
fn a_master_without_its_journal_costs_no_restart_although_its_rounds_start_over() {
    let mut job = Job::start("2", "0");
    let script = format!("echo $TORCHELASTIC_RESTART_COUNT >> starts; {WAIT}");
    let nodes = [job.node(1, &script), job.node(1, &script)];
    job.folder.await_lines("starts", 2);
    for starts in [4, 6] {
        job.master.end_with(Signal::SIGKILL);
        start_master_without_memory(&mut job);
        assert_eq!(job.folder.await_lines("starts", starts), vec!["0"; starts]);
    }
    job.folder.let_go();
    end_well(nodes);
    let run = job.run();
    assert_eq!((&run["programFailures"], &run["round"]), (&0.into(), &2.into()), "{run}");
}

#[test]
fn a_program_that_ended_while_the_master_lost_its_journal_stays_ended() {
    let mut job = Job::start("1", "0");
    let node = job.node(1, &format!("echo start >> starts; {WAIT}; echo end >> ends"));
    job.folder.await_lines("starts", 1);
    job.master.end_with(Signal::SIGKILL);
    job.folder.let_go();
    job.folder.await_lines("ends", 1);
    start_master_without_memory(&mut job);
    end_well([node]);
}

#[test]
fn a_finished_launcher_does_not_wait_forever_for_a_lost_master() {
    let mut job = Job::start("1", "0");
    let script = format!("echo start >> starts; {WAIT}");
    let node = Launcher::start(job.command().args(["--rdzv-conf=join_timeout=2", "sh", "-c", &script]));
    job.folder.await_lines("starts", 1);
    job.master.end_with(Signal::SIGKILL);
    job.folder.let_go();
    assert!(node.wait_for(3).stderr.contains("join_timeout; it waited for the master: "));
}
