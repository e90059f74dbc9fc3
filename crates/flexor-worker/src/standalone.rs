//! Training in one process: the model's parameters are in memory, without a parameter server.
//!
//! It takes the same steps on the same values as a worker with parameter servers, without network, leases or
//! checkpoints. Tests use it to show that models learn, and defaults are tuned with it.

#[cfg(test)]
mod tests;

use flexor_ps::buckets::Buckets;
use flexor_ps::hosted::{DenseAnswer, HostedPartitions, PullError, ReadMode, SliceRequest};
use flexor_ps::layout::{Layout, TableId};
use flexor_ps::partition::{PartitionError, PushOptions};
use flexor_ps::placement::{PartitionId, SLICE_ELEMENTS};
use flexor_ps::push::{BadRequest, NonFinite, Push, RowGradients, RowKeys, SliceGradient};
use flexor_ps::spec::{Optimizer, SpecError};
use thiserror::Error;

use crate::models::{Gradients, Model, Step};
use crate::{Batch, Lookup};

pub struct StandaloneTrainer {
    model: Box<dyn Model>,
    hosted: HostedPartitions,
    lookup: Lookup,
    /// For each table: the keys of a step by partition. `rows` has the values of their rows.
    buckets: Vec<Buckets>,
    rows: Vec<Vec<f32>>,
    variables: Vec<Vec<f32>>,
    gradients: Gradients,
}

/// Why a step failed.
#[derive(Debug, Error)]
pub enum StandaloneError {
    #[error(transparent)]
    Pull(#[from] PullError),
    /// The gradients are invalid.
    #[error(transparent)]
    Push(#[from] BadRequest),
    /// The partitions refuse the request, for want of memory.
    #[error(transparent)]
    PartitionError(#[from] PartitionError),
}

impl StandaloneTrainer {
    pub fn new(model: Box<dyn Model>, optimizer: Optimizer, seed: u64) -> Result<Self, SpecError> {
        let layout = Layout::new(model.declaration().with(optimizer, seed))?;
        let spec = layout.spec();
        let (rows, buckets) = (vec![Vec::new(); spec.tables.len()], spec.tables.iter().map(|_| Buckets::default()));
        let variables = spec.variables.iter().map(|variable| vec![0.0; variable.elements() as usize]).collect();
        let (buckets, lookup, gradients) = (buckets.collect(), Lookup::default(), Gradients::default());
        let hosted = HostedPartitions::new(layout);
        hosted.make(PartitionId::all());
        Ok(Self { model, hosted, lookup, buckets, rows, variables, gradients })
    }

    /// Takes one step. Returns its gradients with the loss and scores before it.
    pub fn train(&mut self, batch: &Batch) -> Result<&Gradients, StandaloneError> {
        self.pull(batch, ReadMode::Train)?;
        let step = Step { batch, lookup: &self.lookup, variables: &self.variables, rows: &self.rows };
        self.model.gradients(step, &mut self.gradients);
        self.push()?;
        Ok(&self.gradients)
    }

    /// Scores records. Untrained rows have their initial values and are not stored.
    pub fn scores(&mut self, batch: &Batch) -> Result<&[f32], StandaloneError> {
        self.pull(batch, ReadMode::Peek)?;
        let step = Step { batch, lookup: &self.lookup, variables: &self.variables, rows: &self.rows };
        Ok(self.model.scores(step))
    }

    /// Rows in all tables.
    pub fn rows(&self) -> u64 {
        self.hosted.load().rows
    }

    fn pull(&mut self, batch: &Batch, reading: ReadMode) -> Result<(), StandaloneError> {
        self.model.look_up(batch, &mut self.lookup);
        let layout = self.hosted.layout();
        let tables = (0..).map(TableId).zip(self.lookup.tables()).zip(&mut self.buckets).zip(&mut self.rows);
        for (((table, lookup), buckets), rows) in tables {
            if let Some(name) = layout.name_hash(table) {
                buckets.sort(name, lookup.keys());
            }
            let wanted = RowKeys { table, keys: lookup.keys(), buckets };
            if let Some(turned) = self.hosted.pull(wanted, reading, rows)?.into_iter().next() {
                return Err(turned.into());
            }
        }
        let slices: Vec<SliceRequest> = layout.slices().map(|slice| SliceRequest { slice, known: None }).collect();
        self.hosted.pull_dense(&slices, reading, |slice, answer| {
            if let (DenseAnswer::Modified { weights, .. }, Some(range)) = (answer, layout.elements(slice)) {
                let range = range.start as usize..range.end as usize;
                self.variables[slice.variable as usize][range].copy_from_slice(weights);
            }
        })?;
        Ok(())
    }

    fn push(&self) -> Result<(), StandaloneError> {
        let layout = self.hosted.layout();
        let tables = (0..).map(TableId).zip(self.lookup.tables()).zip(&self.buckets).zip(&self.gradients.rows);
        let rows = tables.map(|(((table, lookup), buckets), gradients)| {
            let keys = lookup.keys();
            RowGradients { table, keys, buckets, gradients }
        });
        let rows: Vec<RowGradients<'_>> = rows.collect();
        let slices = (0..).zip(&self.gradients.variables).flat_map(|(variable, gradients)| {
            let gradients = gradients.chunks(SLICE_ELEMENTS as usize);
            layout.slices_of(variable).zip(gradients).map(|(slice, gradient)| SliceGradient {
                slice,
                offset: 0,
                gradient,
            })
        });
        let slices: Vec<SliceGradient<'_>> = slices.collect();
        let non_finite = NonFinite::Refuse;
        let push = Push { batch: None, learning_rate: 0.0, rows: &rows, slices: &slices, non_finite };
        let checked = self.hosted.check(&push)?;
        for (_, taken) in self.hosted.push(&checked, |_| PushOptions::default()) {
            taken?;
        }
        Ok(())
    }
}
