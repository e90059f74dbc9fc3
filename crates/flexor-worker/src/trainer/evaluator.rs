//! Evaluates the model on test data during training.
//!
//! The master decides when, and which worker does it. The model is read from a snapshot that the servers keep, or from
//! the last checkpoint if they have no memory for one. Otherwise the evaluation is skipped with its reason. Training
//! continues meanwhile and never fails because of it; both share one compute thread.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flexor_ps::checkpoint::SavedModel;
use flexor_ps::client::{Client, SnapshotError};
use flexor_ps::spec::ModelSpec;
use flexor_wire::master::v1 as wire;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{DATASET, TestResult};
use crate::ledger::LedgerClient;
use crate::metrics::Metrics;
use crate::scorer::{ParameterSource, Scorer, ScoringError};

/// Attempts to take a snapshot while servers move partitions, and the delay between them.
const SNAPSHOT_ATTEMPTS: u32 = 3;
const RETRY_DELAY: Duration = Duration::from_millis(300);

/// When and how the model is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvaluationSchedule {
    /// Accounted records between two evaluations.
    pub every: u64,
    /// Memory per server for the snapshot, in bytes.
    pub memory: u64,
    /// The largest checkpoint that this worker loads into memory instead, in bytes.
    pub checkpoint: u64,
}

/// The result of an evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluationResult {
    /// Accounted records when the evaluation was assigned.
    pub records: u64,
    /// The scores, or why the evaluation was skipped.
    pub outcome: Result<TestResult, String>,
    /// The evaluated checkpoint, if it was one.
    pub checkpoint: Option<u64>,
}

pub(super) struct Evaluator {
    pub(super) when: EvaluationSchedule,
    pub(super) scorer: Scorer,
    pub(super) client: Client,
    pub(super) spec: ModelSpec,
    pub(super) ledger: Arc<LedgerClient>,
    pub(super) permits: Arc<Semaphore>,
}

/// The task of an evaluator.
pub(super) struct EvaluatorTask {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    results: mpsc::UnboundedReceiver<EvaluationResult>,
}

impl EvaluatorTask {
    /// Runs the assigned evaluations until it is stopped.
    pub(super) fn start(mut evaluator: Evaluator) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let (done, results) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            loop {
                let due = tokio::select! {
                    due = evaluator.ledger.next_evaluation(DATASET, evaluator.when.every) => due,
                    _ = &mut stopped => return,
                };
                let Ok((number, due)) = due else { return };
                let evaluated = evaluator.evaluate(&due).await;
                if evaluator.ledger.report_evaluation(to_wire(number, &evaluated)).await.is_err() {
                    return;
                }
                // The receiver is gone only when the worker ends.
                let _ = done.send(evaluated);
            }
        });
        Self { stop, task, results }
    }

    /// The next result, if there is one.
    pub(super) fn take_result(&mut self) -> Option<EvaluationResult> {
        self.results.try_recv().ok()
    }

    /// Starts no further evaluation, completes the current one, and returns all remaining results.
    pub(super) async fn finish(self) -> Vec<EvaluationResult> {
        let Self { stop, task, mut results } = self;
        let _ = stop.send(());
        let _ = task.await;
        std::iter::from_fn(|| results.try_recv().ok()).collect()
    }
}

impl Evaluator {
    async fn evaluate(&mut self, due: &wire::Evaluation) -> EvaluationResult {
        let records = due.records;
        let why = match self.measure_snapshot().await {
            Ok(measured) => return EvaluationResult { records, outcome: Ok(measured), checkpoint: None },
            Err(why) => why,
        };
        match self.measure_checkpoint(Path::new(&due.checkpoints)).await {
            Ok((checkpoint, measured)) => {
                EvaluationResult { records, outcome: Ok(measured), checkpoint: Some(checkpoint) }
            }
            Err(instead) => EvaluationResult { records, outcome: Err(format!("{why}; {instead}")), checkpoint: None },
        }
    }

    async fn measure_snapshot(&mut self) -> Result<TestResult, String> {
        let mut why = String::new();
        for _ in 0..SNAPSHOT_ATTEMPTS {
            let taken = self.client.snapshot(self.when.memory).await;
            let measured = match taken {
                Ok(snapshot) => {
                    measure(&mut self.scorer, &mut ParameterSource::Snapshot(snapshot), &self.permits).await
                }
                Err(error) => Err(error.into()),
            };
            match measured {
                Ok(measured) => return Ok(measured),
                Err(ScoringError::Snapshot(SnapshotError::Moved(moved))) => why = moved,
                Err(other) => return Err(other.to_string()),
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        Err(why)
    }

    async fn measure_checkpoint(&mut self, folder: &Path) -> Result<(u64, TestResult), String> {
        if folder.as_os_str().is_empty() {
            return Err("the job makes no checkpoints that could be evaluated instead".to_owned());
        }
        let at_most = self.when.checkpoint;
        let open_dataset = tokio::task::block_in_place(|| SavedModel::open(folder, None, at_most));
        let saved = open_dataset.map_err(|error| error.to_string())?;
        if saved.spec() != self.spec {
            return Err(format!("checkpoint {} belongs to another model", saved.id()));
        }
        let measured = measure(&mut self.scorer, &mut ParameterSource::Saved(&saved), &self.permits).await;
        measured.map(|measured| (saved.id().0, measured)).map_err(|error| error.to_string())
    }
}

/// Scores the test data.
pub(super) async fn measure(
    scorer: &mut Scorer,
    values: &mut ParameterSource<'_>,
    permits: &Semaphore,
) -> Result<TestResult, ScoringError> {
    let mut metrics = Metrics::new(scorer.task());
    scorer.score(values, permits, |scored| metrics.add(scored.scores, scored.labels)).await?;
    Ok(TestResult {
        records: metrics.records(),
        loss: metrics.loss(),
        auc: metrics.auc(),
        accuracy: metrics.accuracy(),
    })
}

fn to_wire(number: u64, evaluated: &EvaluationResult) -> wire::EvaluationResult {
    let EvaluationResult { records, outcome, checkpoint } = evaluated;
    let common = wire::EvaluationResult {
        number,
        records: *records,
        checkpoint: *checkpoint,
        ..wire::EvaluationResult::default()
    };
    match outcome {
        Ok(TestResult { loss, auc, accuracy, .. }) => {
            wire::EvaluationResult { loss: *loss, auc: *auc, accuracy: *accuracy, ..common }
        }
        Err(why) => wire::EvaluationResult { skipped: why.clone(), ..common },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trainer does not read results while it saves and evaluates the final model.
    #[tokio::test]
    async fn all_remaining_results_are_returned_at_the_end() {
        let (stop, stopped) = oneshot::channel();
        let (done, results) = mpsc::unbounded_channel();
        let measured = |records| EvaluationResult { records, outcome: Err("no room".to_owned()), checkpoint: None };
        let task = tokio::spawn(async move {
            done.send(measured(1)).unwrap();
            done.send(measured(2)).unwrap();
            stopped.await.unwrap();
            done.send(measured(3)).unwrap();
        });
        let remaining = EvaluatorTask { stop, task, results }.finish().await;
        assert_eq!(remaining, [1, 2, 3].map(measured));
    }
}
