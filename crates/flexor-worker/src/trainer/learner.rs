//! Computes the gradients of one batch after the other, pushes them, and only then acknowledges the batch.

use std::sync::Arc;
use std::time::Instant;

use flexor_ps::client::{AcknowledgedVersions, Client, Gradients as Pushed};
use flexor_ps::layout::TableId;
use flexor_wire::master::v1 as wire;
use tokio::sync::Semaphore;

use super::batch_prefetcher::{BatchPrefetcher, PreparedBatch};
use super::evaluator::EvaluatorTask;
use super::load_counters::{LoadCounters, Part};
use super::{
    ProgressMeter, ProgressReport, TrainingError, TrainingEvent, TrainingOutcome, TrainingPlan, progress_reporter,
};
use crate::ledger::LedgerClient;
use crate::models::{Gradients, Model, Step};

/// The learner and its results so far.
pub(super) struct Learner<'a> {
    pub(super) plan: &'a TrainingPlan,
    pub(super) model: Box<dyn Model>,
    pub(super) gradients: Gradients,
    pub(super) pusher: Client,
    pub(super) ledger: Arc<LedgerClient>,
    /// Training and evaluation share one compute thread.
    pub(super) permits: Arc<Semaphore>,
    pub(super) progress: ProgressMeter,
    pub(super) outcome: TrainingOutcome,
    pub(super) load: Arc<LoadCounters>,
}

impl Learner<'_> {
    /// Trains until no batch is left, reports that to the master, and returns the prefetcher.
    pub(super) async fn train_all(
        &mut self,
        prefetcher: BatchPrefetcher,
        mut evaluator: Option<&mut EvaluatorTask>,
        on_event: &mut impl FnMut(TrainingEvent<'_>),
    ) -> Result<BatchPrefetcher, TrainingError> {
        let (mut prepared, preparation) = prefetcher.start();
        let mut last = None;
        while let Some(next) = prepared.recv().await {
            let next = next?;
            last = Some(next.held);
            if let Some(report) = self.train_batch(next).await? {
                self.report_progress(&report, on_event).await?;
            }
            if let Some(evaluated) = evaluator.as_mut().and_then(|running| running.take_result()) {
                on_event(TrainingEvent::Evaluated(&evaluated));
            }
        }
        let prefetcher = match preparation.await {
            Ok(prefetcher) => prefetcher,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        if let Some(last) = last {
            // The acknowledgements must be durable before the worker ends.
            self.ledger.acknowledge(last, &AcknowledgedVersions::default(), true).await?;
        }
        if let Some(report) = self.progress.take_remaining() {
            self.report_progress(&report, on_event).await?;
        }
        self.ledger.report(progress_reporter::final_report(&self.outcome, self.load.report())).await?;
        Ok(prefetcher)
    }

    async fn report_progress(
        &self,
        report: &ProgressReport,
        on_event: &mut impl FnMut(TrainingEvent<'_>),
    ) -> Result<(), TrainingError> {
        on_event(TrainingEvent::Progress(report));
        self.ledger.report(progress_reporter::progress_report(report, &self.outcome, self.load.report())).await?;
        Ok(())
    }

    /// Acknowledges a batch, and counts its records unless another worker had acknowledged it.
    async fn acknowledge(&mut self, held: wire::LeasedBatches) -> Result<(), TrainingError> {
        let began = Instant::now();
        let versions = self.pusher.take_acknowledged();
        let records = self.ledger.acknowledge(held, &versions, false).await?;
        self.load.add(Part::Acknowledge, began);
        self.load.finish_batch();
        self.outcome.records += records;
        self.outcome.damaged += held.skipped_records.min(records);
        Ok(())
    }

    /// Trains on one batch. Returns a progress report if one is due.
    async fn train_batch(&mut self, next: PreparedBatch) -> Result<Option<ProgressReport>, TrainingError> {
        let PreparedBatch { id, held, batch, lookup, variables, rows, versions, rewind_epoch } = next;
        if batch.is_empty() {
            // All of its records were skipped; the batch is acknowledged all the same.
            self.acknowledge(held).await?;
            return Ok(None);
        }
        let step = Step { batch: &batch, lookup: &lookup, variables: &variables, rows: &rows };
        {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await.ok();
            let began = Instant::now();
            tokio::task::block_in_place(|| self.model.gradients(step, &mut self.gradients));
            self.load.add(Part::Compute, began);
        }
        let row_gradients: Vec<(TableId, &[u64], &[f32])> = (0..)
            .map(TableId)
            .zip(lookup.tables())
            .zip(&self.gradients.rows)
            .map(|((table, of), values)| (table, of.keys(), values.as_slice()))
            .collect();
        let variable_gradients: Vec<(u32, &[f32])> =
            (0..).zip(self.gradients.variables.iter().map(Vec::as_slice)).collect();
        let (rewind_epoch, non_finite) = (self.plan.steps.map(|_| rewind_epoch), self.plan.non_finite);
        let push = Pushed {
            batch: id,
            learning_rate: 0.0,
            rewind_epoch,
            non_finite,
            rows: &row_gradients,
            variables: &variable_gradients,
        };
        let began = Instant::now();
        let pushed = self.pusher.push_based_on(&push, &versions).await?;
        self.load.add(Part::Push, began);
        self.outcome.applied_before += u64::from(pushed.already_applied) + u64::from(pushed.batch_closed);
        self.acknowledge(held).await?;
        self.outcome.steps += 1;
        Ok(self.progress.step(&batch, &self.gradients))
    }
}
