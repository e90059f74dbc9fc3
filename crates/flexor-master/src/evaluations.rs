//! Measurements of the model while it is trained: given to workers as they are due, and what came of them.
//!
//! None of it is written down. After a restart of the master the next one is due at once, and the counts begin anew.

use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_engine::evaluation;
use flexor_engine::shards::WorkerId;
use flexor_wire::master::v1 as wire;
use serde::Serialize;
use tokio::time::Instant;

use crate::data::Data;
use crate::learning::Scores;

/// How often it is looked whether one is due, while a worker waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How much a worker may say about one that could not be made.
const MOST_WORDS: usize = 1024;

/// The measurements of a job.
#[derive(Debug, Default)]
pub struct Evaluations(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    machine: evaluation::Evaluations,
    status: EvaluationsStatus,
}

/// What came of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationsStatus {
    /// How many were made.
    pub done: u64,
    /// After how many records the last one was made.
    pub records: u64,
    /// The checkpoint it was made on, where there was no room to keep the model as it was.
    pub checkpoint: Option<u64>,
    /// How many could not be made.
    pub skipped: u64,
    /// Why the last of these could not.
    pub why_skipped: Option<String>,
}

/// One that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its number.
    pub number: u64,
    /// How many records are accounted for.
    pub records: u64,
}

impl Evaluations {
    /// Waits until one is due that this worker is to make, but not for longer than this.
    pub async fn next(
        &self,
        data: &Data,
        worker: &WorkerId,
        (dataset, every): (&str, NonZeroU64),
        wait: Duration,
    ) -> Option<Due> {
        let deadline = Instant::now() + wait;
        loop {
            let records = data.accounted(dataset);
            if let Some(number) = self.lock().machine.next(worker, records, every) {
                return Some(Due { number, records });
            }
            if Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// A worker says what came of one; how well the model does, if that is news.
    pub fn finish(&self, worker: &WorkerId, said: &wire::Evaluated) -> Option<Scores> {
        let mut state = self.lock();
        if !state.machine.finish(worker, said.number) {
            return None;
        }
        let status = &mut state.status;
        if !said.skipped.is_empty() {
            status.skipped += 1;
            status.why_skipped = Some(said.skipped.chars().take(MOST_WORDS).collect());
            return None;
        }
        status.done += 1;
        status.records = said.records;
        status.checkpoint = said.checkpoint;
        Some(Scores { loss: said.loss, auc: said.auc, accuracy: said.accuracy })
    }

    /// A worker is gone.
    pub fn gone(&self, worker: &WorkerId) {
        self.lock().machine.gone(worker);
    }

    /// What there is to tell; nothing where none was made or skipped.
    pub fn status(&self) -> Option<EvaluationsStatus> {
        let status = self.lock().status.clone();
        (status != EvaluationsStatus::default()).then_some(status)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<EvaluationsStatus> for wire::Evaluations {
    fn from(status: EvaluationsStatus) -> Self {
        let EvaluationsStatus { done, records, checkpoint, skipped, why_skipped } = status;
        Self { done, records, checkpoint, skipped, why_skipped: why_skipped.unwrap_or_default() }
    }
}
