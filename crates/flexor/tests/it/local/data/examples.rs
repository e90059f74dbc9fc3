//! Tests the two workers as the README of `examples/any-program` starts them: alone, at a master, and with a token.

use std::fs;

use flexor_model::env;
use flexor_testbed::skip;

use super::super::faults::master::{Master, Ports, master};
use super::super::launch::folder::Folder;
use super::super::launch::job::Job;
use super::super::launch::launcher::{Launcher, standalone};
use super::api;
use super::report::{Report, WrittenRecords};
use super::worker::Worker;

#[test]
fn the_shell_worker_needs_no_master_of_its_own() {
    every_record_is_written_once_without_a_master(Worker::Shell);
}

#[test]
fn the_python_worker_needs_no_master_of_its_own() {
    every_record_is_written_once_without_a_master(Worker::Python);
}

#[test]
fn the_shell_worker_at_a_master_leaves_an_exact_report() {
    the_report_is_exact(Worker::Shell);
}

#[test]
fn the_python_worker_at_a_master_leaves_an_exact_report() {
    the_report_is_exact(Worker::Python);
}

/// By hand, as with `curl`: no launcher sets the worker's identity.
#[test]
fn a_worker_without_a_launcher_shows_the_token_of_the_job() {
    for worker in [Worker::Shell, Worker::Python] {
        if let Some(needs) = worker.lacks() {
            skip!("there is no {needs}");
        }
        let folder = Folder::new();
        let token_file = folder.path().join("token");
        fs::write(&token_file, "a-token-of-some-length\n").unwrap();
        let served = Master::run(master("1:1", Ports::free()).arg("--token-file").arg(&token_file));
        let run = |with_token: bool| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &worker.script(20, 10, 0.0)]).current_dir(folder.path());
            command.env(env::MASTER.name, served.ports.grpc.to_string()).env_remove(env::TOKEN_FILE.name);
            if with_token {
                command.env(env::TOKEN_FILE.name, &token_file);
            }
            Launcher::start(&mut command).wait()
        };
        let refused = run(false);
        assert_eq!(refused.code, Some(1), "{worker:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("send the job's token"), "{worker:?}: {}", refused.stderr);
        assert_eq!(api::get(served.ports.grpc, "datasets").0, 401);
        let taken = run(true);
        assert_eq!(
            (taken.code, WrittenRecords::read(&folder).records()),
            (Some(0), 20),
            "{worker:?}: {}",
            taken.stderr
        );
    }
}

fn every_record_is_written_once_without_a_master(worker: Worker) {
    if let Some(needs) = worker.lacks() {
        skip!("there is no {needs}");
    }
    let folder = Folder::new();
    // The last batch has 3 records.
    let ended = standalone(&folder, &["--nproc-per-node=3"], &worker.script(203, 10, 0.0));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let written = WrittenRecords::read(&folder);
    assert_eq!((written.records(), written.repeats()), (203, 0));
}

fn the_report_is_exact(worker: Worker) {
    if let Some(needs) = worker.lacks() {
        skip!("there is no {needs}");
    }
    let job = Job::start("2", "0");
    let script = worker.script(403, 10, 0.0);
    let nodes = [job.node(2, &script), job.node(1, &script)];
    nodes.into_iter().for_each(|node| drop(node.wait_for(0)));
    let report = Report::ask(job.master.ports.grpc).unwrap();
    report.fits(403, &WrittenRecords::read(&job.folder));
    assert_eq!((report.totals.accounted, report.totals.repeated_at_most), (403, 0));
}
