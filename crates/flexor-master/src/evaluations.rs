//! Evaluations during training: assigns them to workers, and stores their results for status and metrics.
//!
//! Nothing is journaled. After a restart of the master the next evaluation is due at once, and the counts start anew.

use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flexor_engine::evaluation;
use flexor_engine::ledger::WorkerId;
use flexor_wire::master::v1 as wire;
use serde::Serialize;
use tokio::time::Instant;

use crate::data::Data;
use crate::scores::Scores;

/// How often a waiting request checks whether an evaluation is due.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The most characters of a stored skip reason.
const MAX_SKIP_REASON: usize = 1024;

/// The evaluations of a job.
#[derive(Debug, Default)]
pub struct Evaluations(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    schedule: evaluation::Evaluations,
    status: EvaluationsStatus,
}

/// Results of the evaluations.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationsStatus {
    pub done: u64,
    /// Accounted records at the last evaluation.
    pub records: u64,
    /// The checkpoint that was evaluated, if the servers had no memory for a snapshot.
    pub checkpoint: Option<u64>,
    /// Evaluations that could not run.
    pub skipped: u64,
    /// Why the last of them was skipped.
    pub why_skipped: Option<String>,
}

/// An evaluation that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    pub number: u64,
    /// Accounted records at this moment.
    pub records: u64,
}

impl Evaluations {
    /// Waits up to `wait` until this worker is assigned an evaluation.
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
            if let Some(number) = self.lock().schedule.next(worker, records, every) {
                return Some(Due { number, records });
            }
            if Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Stores a worker's result. Returns the scores if the evaluation was assigned to it and ran.
    pub fn finish(&self, worker: &WorkerId, result: &wire::EvaluationResult) -> Option<Scores> {
        let mut state = self.lock();
        if !state.schedule.finish(worker, result.number) {
            return None;
        }
        let status = &mut state.status;
        if !result.skipped.is_empty() {
            status.skipped += 1;
            status.why_skipped = Some(result.skipped.chars().take(MAX_SKIP_REASON).collect());
            return None;
        }
        status.done += 1;
        status.records = result.records;
        status.checkpoint = result.checkpoint;
        Some(Scores { loss: result.loss, auc: result.auc, accuracy: result.accuracy })
    }

    /// A worker is lost: its evaluation is due again.
    pub fn worker_lost(&self, worker: &WorkerId) {
        self.lock().schedule.worker_lost(worker);
    }

    /// The status; `None` before the first result.
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
