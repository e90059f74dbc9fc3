//! Tests the report of a job with parameter servers: updates, pace, loss over time, and the load of each server.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::cluster::Workspace;
use super::quickstart::{FinishedRun, Quickstart};
use super::synchronous;

#[test]
fn updates_pace_loss_and_load_are_in_the_summary_and_in_the_report() {
    let workspace = Workspace::new();
    let quickstart = Quickstart { records: 200_000, ..Quickstart::default() };
    let training = quickstart.start(&workspace, &[]);
    for quarter in 1..=3 {
        // Workers report their status once a second, and the report samples as often.
        let begun = Instant::now();
        let has_passed = |_: &Value| begun.elapsed() >= Duration::from_millis(1500);
        training.no_further_than(quickstart.share(quarter, 4), "a second", has_passed);
    }
    let finished = training.finish();
    let FinishedRun { stdout, job, .. } = &finished;
    quickstart.assert_all_is_well(&finished);

    for message in [
        " sent again, 0 applied twice, 0 lost\n",
        " steps/s while it trained\n",
        "; on other data loss 0.",
        "  servers         quickstart-edljob-ps-0: 128 partitions, ",
        "                  quickstart-edljob-ps-1: 128 partitions, ",
    ] {
        assert!(stdout.contains(message), "{message:?} is not in {stdout}");
    }

    // A batch is at most one update of each partition.
    let batches = 200_000_u64.div_ceil(64);
    let applied = job["updates"]["applied"].as_u64().unwrap();
    assert!((batches..=batches * 256).contains(&applied), "{applied} updates of {batches} batches");

    let servers = job["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2, "{servers:?}");
    for server in servers {
        assert!(server["rows"].as_u64().unwrap() > 0 && server["bytes"].as_u64().unwrap() > 0, "{server}");
        let cpus = server["cpus"].as_f64().unwrap();
        assert!(cpus > 0.0 && cpus < 64.0, "{server}");
    }

    let samples = job["training"].as_array().unwrap();
    let losses: Vec<f64> = samples.iter().filter_map(|sample| sample["learning"]["loss"].as_f64()).collect();
    let (first, last) = (losses.first().unwrap(), losses.last().unwrap());
    assert!(last < first, "it learns: {losses:?}");

    let read = |name: &str| fs::read_to_string(workspace.folder.path().join("report").join(name)).unwrap();
    let of_each = |sample: &Value| sample["servers"]["each"].as_array().map_or(0, Vec::len);
    assert_eq!(read("servers.csv").lines().count(), 1 + samples.iter().map(of_each).sum::<usize>());
    let table = read("training.csv");
    assert!(table.lines().next().unwrap().contains("nodes,step,") && table.contains("records_per_s,loss,auc,accuracy"));
    let nodes: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split(',').nth(3)).collect();
    // A chief and a worker; one may start after the first sample or end before the last.
    assert!(nodes.contains(&"2") && nodes.iter().all(|nodes| ["0", "1", "2"].contains(nodes)), "{nodes:?}");
    assert!(read("timeline.svg").contains(">loss</text>"));
}

/// A run does not count the progress of the checkpoint that it resumes from.
#[test]
fn a_run_without_remaining_work_reports_no_pace() {
    let workspace = Workspace::new();
    let job = synchronous::job(1, 1);
    assert!(job.start(&workspace, &[]).ends_with(0).stdout.contains("\n  pace            "));
    let again = job.start(&workspace, &[]).ends_with(0).stdout;
    assert!(again.contains("40050 expected, 40050 accounted for") && !again.contains("\n  pace "), "{again}");
}
