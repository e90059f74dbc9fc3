//! Tests that jobs at one address stay separate: a launcher with a job name joins no other job.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::super::faults::deadline::{eventually, throughout};
use super::super::faults::master::JOB;
use super::folder::{Folder, WAIT};
use super::job::Job;
use super::launcher::{Launcher, end_well, launch};
use super::worlds::free_port;

#[test]
fn a_node_of_another_job_is_refused_and_starts_nothing() {
    let job = Job::start("1", "0");
    let run = ["sh", "-c", "echo started"];
    let mut by_option = job.command_for(&["--rdzv-id=beta"]);
    let mut set = job.command_for(&[]);
    set.env("PET_RDZV_ID", "beta");
    for command in [&mut by_option, &mut set] {
        let ended = Launcher::start(command.args(run)).wait_for(1);
        assert_eq!(ended.stdout, "", "{}", ended.stderr);
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(matches!(lines[..], [line] if line.contains("beta") && line.contains(JOB)), "{}", ended.stderr);
    }
    assert_eq!(job.master.members(), 0);
}

#[test]
fn a_node_that_names_no_job_takes_part_in_the_one_there_is() {
    for id in [&[][..], &["--rdzv-id=none"]] {
        let job = Job::start("1", "0");
        Launcher::start(job.command_for(id).arg("true")).wait_for(0);
    }
}

#[test]
fn any_text_names_the_job_of_a_node_that_serves() {
    let folder = Folder::new();
    let endpoint = format!("127.0.0.1:{}", free_port());
    let node = |conf: &str| {
        let rendezvous =
            ["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=My run #1", "--rdzv-endpoint", &endpoint, conf];
        Launcher::start(launch(&folder, rendezvous).arg("true"))
    };
    end_well([node("--rdzv-conf=is_host=true"), node("--rdzv-conf=is_host=false")]);
}

#[test]
fn workers_continue_when_a_master_of_another_job_takes_the_address() {
    let mut job = Job::start("1", "0");
    let script = format!("echo started; {WAIT}");
    let mut command = job.command_for(&[]);
    let mut node = Launcher::start(command.env("FLEXOR_LOG", "flexor_agent=debug").args(["sh", "-c", &script]));
    node.await_stdout("started", 1);
    job.master.end_with(Signal::SIGKILL);
    node.await_stderr("dialling again");
    job.start_master_of("another");
    let before = node.stderr().matches("no session").count();
    throughout(Duration::from_secs(3), || assert!(node.is_running()));
    let dials = node.stderr().matches("no session").count() - before;
    assert!((1..=12).contains(&dials), "it dials with pauses that grow to a second: {dials} times in 3 s");
    assert!(!job.master.log().contains("joined run="), "{}", job.master.log());
    job.master.end_with(Signal::SIGKILL);
    job.start_master_again();
    eventually("the node at its own master", || (job.master.members() == 1).then_some(()));
    job.folder.let_go();
    assert_eq!(node.wait_for(0).stdout, "started\n");
}
