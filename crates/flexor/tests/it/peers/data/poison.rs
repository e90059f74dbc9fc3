//! Tests a record that fails one rank of a DDP job; the other ranks fail because they lose that rank.

use flexor_testbed::{Torch, torch_or_skip};

use super::super::job::DEADLINE;
use crate::local::{
    data::report::{Quarantined, Report, WrittenRecords},
    launch::{
        job::Job,
        launcher::{Launcher, end_well},
    },
};

const RECORDS: u64 = 400;
const BATCH: u64 = 10;
const BAD: u64 = 157;

#[test]
fn a_poison_record_in_one_node_is_found_though_both_nodes_fail() {
    poisoned(torch_or_skip!(), "2", 2);
}

#[test]
fn a_poison_record_in_one_of_a_nodes_processes_is_found_though_all_fail() {
    poisoned(torch_or_skip!(), "1", 1);
}

/// Two processes on this many nodes. It may fail three times: with another batch leased, and twice alone. A fourth
/// failure would mean that an innocent batch was blamed.
fn poisoned(torch: Torch, sizes: &'static str, nodes: usize) {
    let job = Job::start(sizes, "3");
    let program = job.folder.path().join("poison.py");
    std::fs::write(&program, include_str!("poison.py")).unwrap();
    let start = |_| {
        let mut command = job.command();
        command.env("PYTHON_EXEC", torch.python()).env("GLOO_SOCKET_IFNAME", "lo");
        command.args(["--nproc-per-node", &(2 / nodes).to_string()]).arg(&program);
        Launcher::start(command.args([RECORDS, BATCH, BAD].map(|number| number.to_string()))).patient(DEADLINE)
    };
    end_well((0..nodes).map(start).collect::<Vec<_>>());

    let report = Report::ask(job.master.ports.grpc).unwrap();
    report.fits(RECORDS, &WrittenRecords::read(&job.folder));
    assert_eq!(report.quarantine, [Quarantined { first: BAD - BAD % BATCH, count: BATCH }]);
    assert_eq!(report.totals.accounted, RECORDS - BATCH, "{report:?}");
    assert_eq!(job.run()["programFailures"], 3, "{}", job.run());
}
