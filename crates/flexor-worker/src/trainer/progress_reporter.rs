//! The reports that a worker sends to its master once a second: progress, the outcome of its pushes, and what it uses.

use flexor_wire::master::v1 as wire;

use super::{ProgressReport, TestResult, TrainingOutcome};

/// The report during training.
pub(super) fn progress_report(
    report: &ProgressReport,
    outcome: &TrainingOutcome,
    load: wire::WorkerLoad,
) -> wire::Metrics {
    let some = [("loss", report.loss), ("auc", report.auc), ("accuracy", report.accuracy)];
    let all = [
        ("step", report.steps as f64),
        ("records_per_second", report.records_per_second),
        ("measured_records", report.measured as f64),
    ];
    let values = values(some).chain(named(all)).collect();
    wire::Metrics { values, updates: Some(updates(outcome)), at_once: false, load: Some(load) }
}

/// The report after the last batch.
pub(super) fn final_report(outcome: &TrainingOutcome, load: wire::WorkerLoad) -> wire::Metrics {
    wire::Metrics { updates: Some(updates(outcome)), at_once: true, load: Some(load), ..wire::Metrics::default() }
}

/// The scores on the test data.
pub(super) fn test_report(test: &TestResult) -> wire::Metrics {
    let some = [("test_loss", test.loss), ("test_auc", test.auc), ("test_accuracy", test.accuracy)];
    wire::Metrics { values: values(some).collect(), at_once: true, ..wire::Metrics::default() }
}

fn updates(outcome: &TrainingOutcome) -> wire::WorkerUpdates {
    wire::WorkerUpdates { repeats: outcome.applied_before }
}

/// The known values.
fn values<const N: usize>(all: [(&'static str, Option<f64>); N]) -> impl Iterator<Item = (String, f64)> {
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)))
}

fn named<const N: usize>(all: [(&'static str, f64); N]) -> impl Iterator<Item = (String, f64)> {
    all.into_iter().map(|(name, value)| (name.to_owned(), value))
}
