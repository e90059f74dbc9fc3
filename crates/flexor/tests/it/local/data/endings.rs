//! Tests unusual ends: empty or shrunken datasets, and programs that exit with open leases.

use flexor_testbed::skip;

use super::super::launch::folder::Folder;
use super::super::launch::job::Job;
use super::super::launch::launcher::standalone;
use super::report::{Report, WrittenRecords};
use super::worker::Worker;

#[test]
fn an_empty_dataset_is_finished_at_once() {
    for worker in [Worker::Shell, Worker::Python] {
        if let Some(needs) = worker.lacks() {
            skip!("there is no {needs}");
        }
        let job = Job::start("1", "0");
        job.node(2, &worker.script(0, 10, 0.0)).wait_for(0);
        Report::ask(job.master.ports.grpc).unwrap().fits(0, &WrittenRecords::read(&job.folder));
    }
}

#[test]
fn a_dataset_that_has_shrunk_is_refused_and_the_program_says_so() {
    for worker in [Worker::Shell, Worker::Python] {
        if let Some(needs) = worker.lacks() {
            skip!("there is no {needs}");
        }
        let folder = Folder::new();
        // Rank 0 joins when the dataset is registered.
        let smaller = worker.script(90, 10, 0.0);
        let script = format!(
            "if [ $RANK = 0 ]; then until [ -s out/1.txt ]; do sleep 0.05; done; {smaller}; fi; {}",
            worker.script(100, 10, 0.01)
        );
        let ended = standalone(&folder, &["--nproc-per-node=2", "--max-restarts=0"], &script);
        assert_eq!(ended.code, Some(1), "{worker:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("numbers is registered with 100 records"), "{worker:?}: {}", ended.stderr);
    }
}

#[test]
fn leases_of_a_program_that_exits_with_0_go_to_other_workers() {
    if let Some(needs) = Worker::Shell.lacks() {
        skip!("there is no {needs}");
    }
    let job = Job::start("1", "0");
    let lease = r#"curl -sS --noproxy '*' -H 'Content-Type: application/json' \
        -d "{\"worker\":\"$FLEXOR_WORKER\",\"incarnation\":$FLEXOR_INCARNATION}" \
        "http://$FLEXOR_MASTER/api/datasets/numbers/lease" > leased"#;
    let script = format!(
        "if [ $RANK = 0 ]; then until [ -s out/1.txt ]; do sleep 0.05; done; {lease}; exit 0; fi; {}",
        Worker::Shell.script(100, 10, 0.1)
    );
    job.node(2, &script).wait_for(0);
    let leased = job.folder.read("leased");
    assert!(leased.contains(r#""lease":"#), "{leased}");
    let report = Report::ask(job.master.ports.grpc).unwrap();
    report.fits(100, &WrittenRecords::read(&job.folder));
    assert_eq!((report.totals.accounted, report.totals.repeated_at_most), (100, 10), "a batch was handed out twice");
}
