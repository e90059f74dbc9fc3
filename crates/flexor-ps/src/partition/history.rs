//! Which batches a partition has applied, so that none is applied twice.
//!
//! Batches of open leases are remembered by their records; once the master says that they were acknowledged, they join
//! the closed ranges, of which there is about one per epoch. No partition knows how many records an epoch has, so that
//! ranges of epochs that are over stay by themselves.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::batch::{BatchId, Pass};
use crate::spans::Spans;

/// What a partition remembers of the updates it has had.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Lists", into = "Lists")]
pub(crate) struct History {
    applied: BTreeMap<Pass, Spans>,
    closed: BTreeMap<Pass, Spans>,
}

/// How it is written: JSON has no maps of such keys.
#[derive(Serialize, Deserialize)]
struct Lists {
    applied: Vec<(Pass, Spans)>,
    closed: Vec<(Pass, Spans)>,
}

/// Where a batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Open,
    Applied,
    Closed,
    /// Some of its records were applied, others not.
    CutElsewhere,
}

impl History {
    pub(super) fn standing(&self, batch: BatchId) -> Standing {
        let (pass, records) = (batch.pass(), batch.first..batch.end());
        let (applied, closed) = (self.applied.get(&pass), self.closed.get(&pass));
        if closed.is_some_and(|closed| closed.covers(&records)) {
            Standing::Closed
        } else if applied.is_some_and(|applied| applied.covers(&records)) {
            Standing::Applied
        } else if [applied, closed].iter().flatten().any(|spans| spans.touches(&records)) {
            Standing::CutElsewhere
        } else {
            Standing::Open
        }
    }

    pub(super) fn apply(&mut self, batch: BatchId) {
        let (pass, records) = (batch.pass(), batch.first..batch.end());
        // A step may be taken after its batches were closed; nobody would come to forget them.
        if !self.closed.get(&pass).is_some_and(|closed| closed.covers(&records)) {
            self.applied.entry(pass).or_default().insert(records);
        }
    }

    /// An update of a batch is still to come, whatever was said.
    pub(super) fn reopen(&mut self, batch: BatchId) {
        if let Some(closed) = self.closed.get_mut(&batch.pass()) {
            closed.remove(batch.first..batch.end());
        }
    }

    pub(super) fn close(&mut self, pass: Pass, records: Range<u64>) {
        let is_known = self.closed.get(&pass).is_some_and(|closed| closed.covers(&records));
        if is_known && !self.applied.get(&pass).is_some_and(|applied| applied.touches(&records)) {
            // What is closed is told again with all that is.
            return;
        }
        if let Some(applied) = self.applied.get_mut(&pass) {
            applied.remove(records.clone());
            if applied.is_empty() {
                self.applied.remove(&pass);
            }
        }
        self.closed.entry(pass).or_default().insert(records);
    }
}

impl From<Lists> for History {
    fn from(lists: Lists) -> Self {
        Self { applied: lists.applied.into_iter().collect(), closed: lists.closed.into_iter().collect() }
    }
}

impl From<History> for Lists {
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
        assert_eq!(history.standing(batch(20)), Standing::Open);
        history.apply(batch(20));
        assert_eq!(history.standing(batch(20)), Standing::Applied);
        assert_eq!(history.standing(batch(25)), Standing::CutElsewhere);
        assert_eq!(history.standing(BatchId { epoch: 3, ..batch(20) }), Standing::Open);
        history.close(batch(20).pass(), 0..40);
        assert_eq!(history.standing(batch(20)), Standing::Closed);
        assert_eq!(history.standing(batch(0)), Standing::Closed);
        assert!(history.applied.is_empty());
    }

    #[test]
    fn what_is_taken_over_behind_its_closing_is_closed_when_that_is_told_again() {
        let mut history = History::default();
        history.close(batch(0).pass(), 0..40);
        let closed = history.clone();
        history.close(batch(0).pass(), 10..30);
        assert_eq!(history, closed);
        history.reopen(batch(20));
        history.apply(batch(20));
        assert_eq!(history.standing(batch(20)), Standing::Applied);
        history.close(batch(0).pass(), 0..40);
        assert_eq!(history, closed);
    }

    #[test]
    fn a_step_that_is_taken_behind_the_closing_of_its_batches_leaves_nothing_to_forget() {
        let mut history = History::default();
        history.close(batch(0).pass(), 0..40);
        let closed = history.clone();
        history.apply(batch(20));
        assert_eq!(history, closed);
    }

    #[test]
    fn what_is_remembered_can_be_written_down() {
        let mut history = History::default();
        history.apply(batch(20));
        history.close(batch(0).pass(), 0..10);
        let text = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history);
    }
}
