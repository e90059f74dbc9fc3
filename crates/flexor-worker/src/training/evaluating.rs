//! Measuring the model on other data while it is trained.
//!
//! The master says when, and which worker does it. The model is read as it was at one moment, from a snapshot that the
//! servers keep; if they have no room for that, from the last checkpoint. What can be had from neither is skipped, with
//! the reason. Training goes on meanwhile, and never fails because of it: the two take turns at computing.

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
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::scoring::{Scorer, ScoringError, Values};

/// How often a snapshot is taken anew while servers change, and how long after.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(300);

/// When and how the model is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evaluations {
    /// After how many records each.
    pub every: u64,
    /// How many bytes a server may put aside for it.
    pub memory: u64,
    /// How large a checkpoint may be that this worker reads into memory instead.
    pub checkpoint: u64,
}

/// What came of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// How many records were accounted for.
    pub records: u64,
    /// How well the model does, or why that is not known.
    pub outcome: Result<TestResult, String>,
    /// The checkpoint that was measured, if it was one.
    pub checkpoint: Option<u64>,
}

/// Everything that it needs.
pub(super) struct Evaluator {
    pub(super) when: Evaluations,
    pub(super) scorer: Scorer,
    pub(super) client: Client,
    pub(super) spec: ModelSpec,
    pub(super) ledger: Arc<Ledger>,
    pub(super) permits: Arc<Semaphore>,
}

/// An evaluator at work.
pub(super) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    results: mpsc::UnboundedReceiver<Evaluated>,
}

impl Running {
    /// Measures whenever the master says so, until it is stopped.
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
                if evaluator.ledger.evaluated(said(number, &evaluated)).await.is_err() {
                    return;
                }
                // Nobody listens any more only when the worker ends.
                let _ = done.send(evaluated);
            }
        });
        Self { stop, task, results }
    }

    /// What was measured since it was looked last.
    pub(super) fn news(&mut self) -> Option<Evaluated> {
        self.results.try_recv().ok()
    }

    /// Begins none any more, and ends the one that was begun; everything that was measured since it was looked last.
    pub(super) async fn finish(self) -> Vec<Evaluated> {
        let Self { stop, task, mut results } = self;
        let _ = stop.send(());
        let _ = task.await;
        std::iter::from_fn(|| results.try_recv().ok()).collect()
    }
}

impl Evaluator {
    async fn evaluate(&mut self, due: &wire::Evaluation) -> Evaluated {
        let records = due.records;
        let why = match self.measure_snapshot().await {
            Ok(measured) => return Evaluated { records, outcome: Ok(measured), checkpoint: None },
            Err(why) => why,
        };
        match self.measure_checkpoint(Path::new(&due.checkpoints)).await {
            Ok((checkpoint, measured)) => Evaluated { records, outcome: Ok(measured), checkpoint: Some(checkpoint) },
            Err(instead) => Evaluated { records, outcome: Err(format!("{why}; {instead}")), checkpoint: None },
        }
    }

    async fn measure_snapshot(&mut self) -> Result<TestResult, String> {
        let mut why = String::new();
        for _ in 0..TRIES {
            let taken = self.client.snapshot(self.when.memory).await;
            let measured = match taken {
                Ok(snapshot) => measure(&mut self.scorer, &mut Values::Snapshot(snapshot), &self.permits).await,
                Err(error) => Err(error.into()),
            };
            match measured {
                Ok(measured) => return Ok(measured),
                Err(ScoringError::Snapshot(SnapshotError::Moved(moved))) => why = moved,
                Err(other) => return Err(other.to_string()),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(why)
    }

    async fn measure_checkpoint(&mut self, folder: &Path) -> Result<(u64, TestResult), String> {
        if folder.as_os_str().is_empty() {
            return Err("no checkpoints are made that could be measured instead".to_owned());
        }
        let at_most = self.when.checkpoint;
        let opened = tokio::task::block_in_place(|| SavedModel::open(folder, None, at_most));
        let saved = opened.map_err(|error| error.to_string())?;
        if saved.spec() != self.spec {
            return Err(format!("checkpoint {} is of another model", saved.id()));
        }
        let measured = measure(&mut self.scorer, &mut Values::Saved(&saved), &self.permits).await;
        measured.map(|measured| (saved.id().0, measured)).map_err(|error| error.to_string())
    }
}

/// How well a model does.
pub(super) async fn measure(
    scorer: &mut Scorer,
    values: &mut Values<'_>,
    permits: &Semaphore,
) -> Result<TestResult, ScoringError> {
    let mut board = Metrics::new(scorer.task());
    scorer.score(values, permits, |scored| board.add(scored.scores, scored.labels)).await?;
    Ok(TestResult { records: board.records(), loss: board.loss(), auc: board.auc(), accuracy: board.accuracy() })
}

fn said(number: u64, evaluated: &Evaluated) -> wire::Evaluated {
    let Evaluated { records, outcome, checkpoint } = evaluated;
    let common = wire::Evaluated { number, records: *records, checkpoint: *checkpoint, ..wire::Evaluated::default() };
    match outcome {
        Ok(TestResult { loss, auc, accuracy, .. }) => {
            wire::Evaluated { loss: *loss, auc: *auc, accuracy: *accuracy, ..common }
        }
        Err(why) => wire::Evaluated { skipped: why.clone(), ..common },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While the model is saved and measured for the last time, nobody looks at what others were measured meanwhile.
    #[tokio::test]
    async fn everything_that_was_measured_is_told_at_the_end() {
        let (stop, stopped) = oneshot::channel();
        let (done, results) = mpsc::unbounded_channel();
        let measured = |records| Evaluated { records, outcome: Err("no room".to_owned()), checkpoint: None };
        let task = tokio::spawn(async move {
            done.send(measured(1)).unwrap();
            done.send(measured(2)).unwrap();
            stopped.await.unwrap();
            done.send(measured(3)).unwrap();
        });
        let told = Running { stop, task, results }.finish().await;
        assert_eq!(told, [1, 2, 3].map(measured));
    }
}
