//! What a worker tells its master once a second: how it learns, and what came of its pushes. It is for people and
//! reports; nothing is decided by it.

use flexor_ps::client::AcknowledgedVersions;
use flexor_wire::master::v1 as wire;

use super::{Outcome, Standing, TestResult};

/// How training stands.
pub(super) fn standing(standing: &Standing, outcome: &Outcome, acknowledged: &AcknowledgedVersions) -> wire::Metrics {
    let some = [("loss", standing.loss), ("auc", standing.auc), ("accuracy", standing.accuracy)];
    let all = [
        ("step", standing.steps as f64),
        ("records_per_second", standing.records_per_second),
        ("measured_records", standing.measured as f64),
    ];
    let values = values(some).chain(named(all)).collect();
    wire::Metrics { values, updates: Some(updates(outcome, acknowledged)), at_once: false }
}

/// All is learnt.
pub(super) fn done(outcome: &Outcome, acknowledged: &AcknowledgedVersions) -> wire::Metrics {
    wire::Metrics { updates: Some(updates(outcome, acknowledged)), at_once: true, ..wire::Metrics::default() }
}

/// How well the model does on other data.
pub(super) fn test(test: &TestResult) -> wire::Metrics {
    let some = [("test_loss", test.loss), ("test_auc", test.auc), ("test_accuracy", test.accuracy)];
    wire::Metrics { values: values(some).collect(), updates: None, at_once: true }
}

fn updates(outcome: &Outcome, acknowledged: &AcknowledgedVersions) -> wire::WorkerUpdates {
    let acknowledged = acknowledged.iter().map(|(partition, generation, version)| wire::AcknowledgedVersion {
        partition: partition.number(),
        generation,
        version,
    });
    wire::WorkerUpdates { repeats: outcome.applied_before, acknowledged: acknowledged.collect() }
}

/// What is known of these.
fn values<const N: usize>(all: [(&'static str, Option<f64>); N]) -> impl Iterator<Item = (String, f64)> {
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)))
}

fn named<const N: usize>(all: [(&'static str, f64); N]) -> impl Iterator<Item = (String, f64)> {
    all.into_iter().map(|(name, value)| (name.to_owned(), value))
}
