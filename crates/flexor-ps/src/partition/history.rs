//! The batches that a partition has applied, so that none is applied twice.
//!
//! Batches of open leases are stored as ranges of records. When the master closes acknowledged records, they join the
//! closed ranges, of which there is about one per epoch. A partition does not know how many records an epoch has, so
//! the ranges of finished epochs are not merged.
//!
//! A batch that is not closed keeps the version of its update. A client that never received the answer to its push learns
//! that version from the answer to the repeated push.

use std::collections::BTreeMap;
use std::ops::Range;

use flexor_model::Spans;
use serde::{Deserialize, Serialize};

use crate::batch::{BatchId, DatasetEpoch};

/// Batches whose versions are kept. Batches of a client without leases are never closed.
const MOST_VERSIONS: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "HistoryRecord", into = "HistoryRecord")]
pub(crate) struct History {
    applied: BTreeMap<DatasetEpoch, Spans>,
    closed: BTreeMap<DatasetEpoch, Spans>,
    /// The versions of updates in `applied`, by the first record of the batch.
    versions: BTreeMap<(DatasetEpoch, u64), u64>,
}

/// The serialised form: JSON maps cannot have such keys.
#[derive(Serialize, Deserialize)]
struct HistoryRecord {
    applied: Vec<(DatasetEpoch, Spans)>,
    closed: Vec<(DatasetEpoch, Spans)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    versions: Vec<((DatasetEpoch, u64), u64)>,
}

/// The state of a batch in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchState {
    Open,
    Applied,
    Closed,
    /// Only some of its records were applied: they were part of another batch.
    Overlapping,
}

impl History {
    pub(super) fn state_of(&self, batch: BatchId) -> BatchState {
        let (epoch, records) = (batch.dataset_epoch(), batch.first..batch.end());
        let (applied, closed) = (self.applied.get(&epoch), self.closed.get(&epoch));
        if closed.is_some_and(|closed| closed.covers(&records)) {
            BatchState::Closed
        } else if applied.is_some_and(|applied| applied.covers(&records)) {
            BatchState::Applied
        } else if [applied, closed].iter().flatten().any(|spans| spans.touches(&records)) {
            BatchState::Overlapping
        } else {
            BatchState::Open
        }
    }

    /// The version of the update of an applied batch. Unknown for records that were applied in other batches.
    pub(super) fn version_of(&self, batch: BatchId) -> Option<u64> {
        self.versions.get(&(batch.dataset_epoch(), batch.first)).copied()
    }

    pub(super) fn apply(&mut self, batch: BatchId, version: u64) {
        let (epoch, records) = (batch.dataset_epoch(), batch.first..batch.end());
        // A step may be committed after its batches were closed. No later call would remove them from `applied`.
        if !self.closed.get(&epoch).is_some_and(|closed| closed.covers(&records)) {
            self.applied.entry(epoch).or_default().insert(records);
            self.versions.insert((epoch, batch.first), version);
            if self.versions.len() > MOST_VERSIONS {
                self.versions.pop_first();
            }
        }
    }

    /// Removes a batch from the closed ranges: its update is still to come.
    pub(super) fn reopen(&mut self, batch: BatchId) {
        if let Some(closed) = self.closed.get_mut(&batch.dataset_epoch()) {
            closed.remove(batch.first..batch.end());
        }
    }

    pub(super) fn close(&mut self, epoch: DatasetEpoch, records: Range<u64>) {
        let is_known = self.closed.get(&epoch).is_some_and(|closed| closed.covers(&records));
        if is_known && !self.applied.get(&epoch).is_some_and(|applied| applied.touches(&records)) {
            // The master repeats closed ranges with every report.
            return;
        }
        if let Some(applied) = self.applied.get_mut(&epoch) {
            applied.remove(records.clone());
            if applied.is_empty() {
                self.applied.remove(&epoch);
            }
            let forgotten = self.versions.range((epoch, records.start)..(epoch, records.end));
            let forgotten: Vec<(DatasetEpoch, u64)> = forgotten.map(|(batch, _)| *batch).collect();
            for batch in forgotten {
                self.versions.remove(&batch);
            }
        }
        self.closed.entry(epoch).or_default().insert(records);
    }
}

impl From<HistoryRecord> for History {
    fn from(record: HistoryRecord) -> Self {
        let HistoryRecord { applied, closed, versions } = record;
        let (applied, closed) = (applied.into_iter().collect(), closed.into_iter().collect());
        Self { applied, closed, versions: versions.into_iter().collect() }
    }
}

impl From<History> for HistoryRecord {
    fn from(history: History) -> Self {
        let History { applied, closed, versions } = history;
        let (applied, closed) = (applied.into_iter().collect(), closed.into_iter().collect());
        Self { applied, closed, versions: versions.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(first: u64) -> BatchId {
        BatchId { dataset: 0, epoch: 2, first, len: 10 }
    }

    #[test]
    fn a_batch_is_open_then_applied_then_closed() {
        let mut history = History::default();
        assert_eq!(history.state_of(batch(20)), BatchState::Open);
        history.apply(batch(20), 7);
        assert_eq!(history.state_of(batch(20)), BatchState::Applied);
        assert_eq!((history.version_of(batch(20)), history.version_of(batch(25))), (Some(7), None));
        assert_eq!(history.state_of(batch(25)), BatchState::Overlapping);
        assert_eq!(history.state_of(BatchId { epoch: 3, ..batch(20) }), BatchState::Open);
        history.close(batch(20).dataset_epoch(), 0..40);
        assert_eq!(history.state_of(batch(20)), BatchState::Closed);
        assert_eq!(history.state_of(batch(0)), BatchState::Closed);
        assert!(history.applied.is_empty() && history.versions.is_empty());
    }

    #[test]
    fn a_reopened_batch_is_closed_by_the_next_repeated_close() {
        let mut history = History::default();
        history.close(batch(0).dataset_epoch(), 0..40);
        let closed = history.clone();
        history.close(batch(0).dataset_epoch(), 10..30);
        assert_eq!(history, closed);
        history.reopen(batch(20));
        history.apply(batch(20), 1);
        assert_eq!(history.state_of(batch(20)), BatchState::Applied);
        history.close(batch(0).dataset_epoch(), 0..40);
        assert_eq!(history, closed);
    }

    #[test]
    fn a_step_committed_after_its_batches_were_closed_leaves_no_applied_range() {
        let mut history = History::default();
        history.close(batch(0).dataset_epoch(), 0..40);
        let closed = history.clone();
        history.apply(batch(20), 1);
        assert_eq!(history, closed);
    }

    #[test]
    fn the_versions_of_a_client_that_closes_nothing_are_bounded() {
        let mut history = History::default();
        for number in 0..MOST_VERSIONS as u64 + 1 {
            history.apply(batch(number * 10), number + 1);
        }
        assert_eq!(history.versions.len(), MOST_VERSIONS);
        assert_eq!((history.version_of(batch(0)), history.version_of(batch(10))), (None, Some(2)));
        assert_eq!(history.state_of(batch(0)), BatchState::Applied);
    }

    #[test]
    fn a_history_without_versions_can_be_read() {
        let history: History = serde_json::from_str(r#"{"applied":[],"closed":[]}"#).unwrap();
        assert_eq!(history, History::default());
    }

    #[test]
    fn a_history_round_trips_through_json() {
        let mut history = History::default();
        history.apply(batch(20), 1);
        history.close(batch(0).dataset_epoch(), 0..10);
        let text = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history);
    }
}
