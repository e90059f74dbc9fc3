//! Tests programs that store the data position in their own checkpoint, which keeps model and data consistent.

use flexor_testbed::skip;
use nix::sys::signal::{Signal, kill};

use super::super::launch::job::Job;
use super::kills::children;
use super::report::Report;
use super::worker::Worker;
use crate::program::root;

#[test]
fn a_program_killed_between_checkpoint_and_acknowledgement_trains_every_record_once() {
    if let Some(needs) = Worker::Python.lacks() {
        skip!("there is no {needs}");
    }
    let mut job = Job::start("1", "3");
    let program = root().join("crates/flexor/tests/it/local/data/checkpoints.py");
    let node = job.node(1, &format!("export no_proxy='*'; exec python3 '{}'", program.display()));
    node.await_stdout("stands still", 1);
    let before = Report::ask(job.master.ports.grpc).unwrap().totals;
    assert_eq!((before.accounted, before.outstanding), (60, 60));

    // The master keeps all of it meanwhile.
    job.master.end_with(Signal::SIGKILL);
    job.start_master_again();
    kill(children(node.id())[0], Signal::SIGKILL).unwrap();
    let ended = node.wait_for(0);

    // The checkpoint was written after four batches, two more were acknowledged since.
    assert_eq!(job.folder.read("rewound"), "20\n", "{}", ended.stderr);
    let report = Report::ask(job.master.ports.grpc).unwrap();
    assert!(report.finished, "{report:?}");
    assert_eq!((report.totals.accounted, report.totals.rewound), (120, 20), "{report:?}");
    assert_eq!(report.totals.repeated_at_most, 10, "the batch that it held when it was killed");
    let mut learnt: Vec<u64> = job.folder.lines("learnt").iter().map(|line| line.parse().unwrap()).collect();
    learnt.sort_unstable();
    assert_eq!(learnt, (0..120).collect::<Vec<_>>(), "what it has learnt of has every record once");
}
