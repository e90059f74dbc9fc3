//! The batches that a partition has applied, so that none is applied twice.
//!
//! Batches of open leases are stored as ranges of records. When the master closes acknowledged records, they join the
//! closed ranges, of which there is about one per epoch. A partition does not know how many records an epoch has, so
//! the ranges of finished epochs are not merged.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::batch::{BatchId, DatasetEpoch};
use crate::spans::Spans;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "HistoryRecord", into = "HistoryRecord")]
pub(crate) struct History {
    applied: BTreeMap<DatasetEpoch, Spans>,
    closed: BTreeMap<DatasetEpoch, Spans>,
}

/// The serialised form: JSON maps cannot have such keys.
#[derive(Serialize, Deserialize)]
struct HistoryRecord {
    applied: Vec<(DatasetEpoch, Spans)>,
    closed: Vec<(DatasetEpoch, Spans)>,
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

    pub(super) fn apply(&mut self, batch: BatchId) {
        let (epoch, records) = (batch.dataset_epoch(), batch.first..batch.end());
        // A step may be committed after its batches were closed. No later call would remove them from `applied`.
        if !self.closed.get(&epoch).is_some_and(|closed| closed.covers(&records)) {
            self.applied.entry(epoch).or_default().insert(records);
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
        }
        self.closed.entry(epoch).or_default().insert(records);
    }
}

impl From<HistoryRecord> for History {
    fn from(record: HistoryRecord) -> Self {
        Self { applied: record.applied.into_iter().collect(), closed: record.closed.into_iter().collect() }
    }
}

impl From<History> for HistoryRecord {
    fn from(history: History) -> Self {
        Self { applied: history.applied.into_iter().collect(), closed: history.closed.into_iter().collect() }
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
        history.apply(batch(20));
        assert_eq!(history.state_of(batch(20)), BatchState::Applied);
        assert_eq!(history.state_of(batch(25)), BatchState::Overlapping);
        assert_eq!(history.state_of(BatchId { epoch: 3, ..batch(20) }), BatchState::Open);
        history.close(batch(20).dataset_epoch(), 0..40);
        assert_eq!(history.state_of(batch(20)), BatchState::Closed);
        assert_eq!(history.state_of(batch(0)), BatchState::Closed);
        assert!(history.applied.is_empty());
    }

    #[test]
    fn a_reopened_batch_is_closed_by_the_next_repeated_close() {
        let mut history = History::default();
        history.close(batch(0).dataset_epoch(), 0..40);
        let closed = history.clone();
        history.close(batch(0).dataset_epoch(), 10..30);
        assert_eq!(history, closed);
        history.reopen(batch(20));
        history.apply(batch(20));
        assert_eq!(history.state_of(batch(20)), BatchState::Applied);
        history.close(batch(0).dataset_epoch(), 0..40);
        assert_eq!(history, closed);
    }

    #[test]
    fn a_step_committed_after_its_batches_were_closed_leaves_no_applied_range() {
        let mut history = History::default();
        history.close(batch(0).dataset_epoch(), 0..40);
        let closed = history.clone();
        history.apply(batch(20));
        assert_eq!(history, closed);
    }

    #[test]
    fn a_history_round_trips_through_json() {
        let mut history = History::default();
        history.apply(batch(20));
        history.close(batch(0).dataset_epoch(), 0..10);
        let text = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history);
    }
}
