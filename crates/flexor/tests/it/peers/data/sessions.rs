//! Tests `examples/any-program/worker_grpc.py`: a broken session is resumed without loss.

use std::fs;
use std::process::Command;

use flexor_model::env;
use flexor_testbed::{Grpc, grpc_or_skip};
use nix::sys::signal::{Signal, kill};

use crate::{
    local::{
        data::{
            kills::children,
            report::{Report, WrittenRecords},
        },
        faults::master::{Master, Ports, master},
        launch::{
            folder::Folder,
            job::Job,
            launcher::{Launcher, end_well},
        },
    },
    program::root,
};

const BATCH: u64 = 5;

/// A script that becomes the worker and writes into `out`, with this many seconds for each batch.
fn worker(grpc: &Grpc, records: u64, seconds: f64) -> String {
    let program = root().join("examples/any-program/worker_grpc.py");
    format!("exec '{}' '{}' out {records} {BATCH} {seconds}", grpc.python().display(), program.display())
}

#[test]
fn the_master_is_killed_twice_and_a_worker_once() {
    let grpc = grpc_or_skip!();
    // The last batch is smaller than the others.
    let records = 1403;
    let mut job = Job::start("2", "3");
    let script = worker(&grpc, records, 0.05);
    let nodes = [job.node(2, &script), job.node(1, &script)];
    for (done, worker_too) in [(200, false), (500, true)] {
        Report::await_done(job.master.ports.grpc, done, || job.master.log());
        if worker_too {
            kill(children(nodes[0].id())[0], Signal::SIGKILL).unwrap();
            Report::await_done(job.master.ports.grpc, done + 100, || job.master.log());
        }
        job.master.end_with(Signal::SIGKILL);
        job.start_master_again();
    }
    end_well(nodes);
    let report = Report::ask(job.master.ports.grpc).unwrap();
    report.fits(records, &WrittenRecords::read(&job.folder));
    assert_eq!(report.totals.accounted, records, "{report:?}");
    // Each of the three workers had up to three batches in hand when one of them was killed.
    assert!(report.totals.repeated_at_most <= 9 * BATCH, "{report:?}");
}

#[test]
fn a_worker_that_ends_well_before_its_acknowledgement_is_durable_loses_nothing() {
    let grpc = grpc_or_skip!();
    let records = 400;
    let mut job = Job::start("1", "0");
    let program = job.folder.path().join("leaves_early.py");
    fs::write(&program, include_str!("leaves_early.py")).unwrap();
    let early = format!(
        "exec '{}' '{}' '{}' {} {records} {BATCH}",
        grpc.python().display(),
        program.display(),
        root().join("crates/flexor-wire/proto").display(),
        job.master.id(),
    );
    let script = format!("if [ $RANK = 0 ]; then {early}; fi; {}", worker(&grpc, records, 0.02));
    let node = job.node(2, &script);
    node.await_stdout("left with an acknowledgement that is not safe", 1);
    job.master.wait();
    job.start_master_again();
    node.wait_for(0);
    let report = Report::ask(job.master.ports.grpc).unwrap();
    report.fits(records, &WrittenRecords::read(&job.folder));
    assert_eq!(report.totals.accounted, records, "{report:?}");
    assert!(report.totals.repeated_at_most <= 2 * BATCH, "only what was not safe is done again: {report:?}");
}

/// By hand: no launcher sets the worker's identity.
#[test]
fn a_worker_without_a_launcher_shows_the_token_of_the_job() {
    let grpc = grpc_or_skip!();
    let folder = Folder::new();
    let token_file = folder.path().join("token");
    fs::write(&token_file, "a-token-of-some-length\n").unwrap();
    let served = Master::run(master("1:1", Ports::free()).arg("--token-file").arg(&token_file));
    let run = |with_token: bool| {
        let mut command = Command::new("sh");
        command.args(["-c", &worker(&grpc, 20, 0.0)]).current_dir(folder.path());
        command.env(env::MASTER.name, served.ports.grpc.to_string()).env_remove(env::TOKEN_FILE.name);
        if with_token {
            command.env(env::TOKEN_FILE.name, &token_file);
        }
        Launcher::start(&mut command).wait()
    };
    let refused = run(false);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("does not carry the job's token"), "{}", refused.stderr);
    let taken = run(true);
    assert_eq!((taken.code, WrittenRecords::read(&folder).records()), (Some(0), 20), "{}", taken.stderr);
}
