//! Learning: gradients are computed of one batch after the other, pushed, and only then is a batch acknowledged.

use std::sync::Arc;

use flexor_ps::client::{Client, Gradients as Pushed};
use flexor_ps::layout::TableId;
use flexor_wire::master::v1 as wire;
use tokio::sync::Semaphore;

use super::evaluating::Running;
use super::preparing::{Prepared, Preparing};
use super::{Outcome, Plan, Progress, Standing, Told, TrainingError, telling};
use crate::ledger::Ledger;
use crate::models::{Gradients, Model, Step};

/// Who learns, and what has come of it so far.
pub(super) struct Learner<'a> {
    pub(super) plan: &'a Plan,
    pub(super) model: Box<dyn Model>,
    pub(super) gradients: Gradients,
    pub(super) pusher: Client,
    pub(super) ledger: Arc<Ledger>,
    /// One thread computes, whatever for.
    pub(super) permits: Arc<Semaphore>,
    pub(super) progress: Progress,
    pub(super) outcome: Outcome,
}

impl Learner<'_> {
    /// Learns until no batch is left, and tells the master so. What batches are prepared with is given back.
    pub(super) async fn learn(
        &mut self,
        preparing: Preparing,
        mut evaluating: Option<&mut Running>,
        tell: &mut impl FnMut(Told<'_>),
    ) -> Result<Preparing, TrainingError> {
        let (mut prepared, preparation) = preparing.start();
        let mut last = None;
        while let Some(next) = prepared.recv().await {
            let next = next?;
            last = Some(next.held);
            if let Some(standing) = self.learn_one(next).await? {
                self.say(&standing, tell).await?;
            }
            if let Some(evaluated) = evaluating.as_mut().and_then(|running| running.news()) {
                tell(Told::Evaluated(&evaluated));
            }
        }
        let preparing = match preparation.await {
            Ok(preparing) => preparing,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        if let Some(last) = last {
            // What was acknowledged must be safe before the worker ends.
            self.ledger.acknowledge(last, true).await?;
        }
        if let Some(standing) = self.progress.rest() {
            self.say(&standing, tell).await?;
        }
        self.ledger.report(telling::done(&self.outcome, self.pusher.acknowledged())).await?;
        Ok(preparing)
    }

    async fn say(&self, standing: &Standing, tell: &mut impl FnMut(Told<'_>)) -> Result<(), TrainingError> {
        tell(Told::Standing(standing));
        self.ledger.report(telling::standing(standing, &self.outcome, self.pusher.acknowledged())).await?;
        Ok(())
    }

    /// A batch is done; counted here if nobody else has done it.
    async fn acknowledge(&mut self, held: wire::Held) -> Result<(), TrainingError> {
        let records = self.ledger.acknowledge(held, false).await?;
        self.outcome.records += records;
        self.outcome.damaged += held.left_out.min(records);
        Ok(())
    }

    /// How it stands, when that is to be told.
    async fn learn_one(&mut self, next: Prepared) -> Result<Option<Standing>, TrainingError> {
        let Prepared { id, held, batch, lookup, variables, rows, versions, rewind_epoch } = next;
        if batch.is_empty() {
            // Nothing of it can be learnt, and it is accounted for all the same.
            self.acknowledge(held).await?;
            return Ok(None);
        }
        let step = Step { batch: &batch, lookup: &lookup, variables: &variables, rows: &rows };
        {
            // It is never closed.
            let _permit = self.permits.acquire().await.ok();
            tokio::task::block_in_place(|| self.model.gradients(step, &mut self.gradients));
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
        let pushed = self.pusher.push_based_on(&push, &versions).await?;
        self.outcome.applied_before += u64::from(pushed.already_applied) + u64::from(pushed.batch_closed);
        self.acknowledge(held).await?;
        self.outcome.steps += 1;
        Ok(self.progress.step(&batch, &self.gradients))
    }
}
