//! Tests a record that makes the program fail: the master isolates, quarantines and names it, and the rest is trained.

use flexor_testbed::skip;

use super::super::launch::job::Job;
use super::report::{Quarantined, Report, WrittenRecords};
use super::worker::Worker;

const RECORDS: u64 = 200;
const BATCH: u64 = 10;
const BAD: u64 = 57;

#[test]
fn a_poison_record_in_one_rank_costs_only_its_batch() {
    if let Some(needs) = Worker::Python.lacks() {
        skip!("there is no {needs}");
    }
    // It fails once among others, and twice alone.
    let job = Job::start("2", "3");
    let program = job.folder.path().join("poison.py");
    std::fs::write(&program, include_str!("poison.py")).unwrap();
    let script = format!("exec python3 '{}' {RECORDS} {BATCH} {BAD}", program.display());
    for node in [job.node(1, &script), job.node(1, &script)] {
        node.wait_for(0);
    }
    let report = Report::ask(job.master.ports.grpc).unwrap();
    report.fits(RECORDS, &WrittenRecords::read(&job.folder));
    assert_eq!(report.quarantine, [Quarantined { first: BAD - BAD % BATCH, count: BATCH }]);
}
