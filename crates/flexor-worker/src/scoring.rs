//! Scoring records with a model that somebody else keeps: for evaluation and prediction.
//!
//! Values come from the job's servers as they are now, from a snapshot of these, or from a checkpoint in memory
//! ([`Values`]); nothing is trained by it, and no rows are made.

use std::sync::Arc;

use flexor_data::Dataset;
use flexor_ps::checkpoint::SavedModel;
use flexor_ps::client::{Client, ClientError, PullFor, Snapshot, SnapshotError};
use flexor_ps::hosted::PullError;
use flexor_ps::layout::TableId;
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::features::{Features, Schema};
use crate::models::{Architecture, Declaration, Model, Step, Task, UnfitInputs};
use crate::reading::{ReadError, read};
use crate::{Batch, Lookup, TableLookup};

/// Where the values of a model come from.
pub(crate) enum Values<'a> {
    /// The servers, as they are now.
    Servers(&'a mut Client),
    /// The servers, as they were.
    Snapshot(Snapshot<'a>),
    /// A checkpoint.
    Saved(&'a SavedModel),
}

/// Why records cannot be scored.
#[derive(Debug, Error)]
pub enum ScoringError {
    /// The records cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The parameter servers refuse something.
    #[error(transparent)]
    Servers(#[from] ClientError),
    /// The snapshot cannot be read any more.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The checkpoint has no such values.
    #[error(transparent)]
    Saved(#[from] PullError),
}

/// Some records that were scored.
pub(crate) struct Scored<'a> {
    /// Their numbers in the data: those that were left out are missing.
    pub(crate) records: &'a [u64],
    /// What the model says of each.
    pub(crate) scores: &'a [f32],
    /// Their labels.
    pub(crate) labels: &'a [u32],
}

/// Goes through records with a model.
pub(crate) struct Scorer {
    dataset: Arc<Dataset>,
    features: Features,
    model: Box<dyn Model>,
    batch: Batch,
    lookup: Lookup,
    rows: Vec<Vec<f32>>,
    size: u64,
}

impl Scorer {
    /// For so many records at a time.
    pub(crate) fn new(
        dataset: Arc<Dataset>,
        schema: &Schema,
        architecture: &Architecture,
        size: u32,
    ) -> Result<Self, UnfitInputs> {
        let features = Features::new(schema);
        let (model, batch) = (architecture.build(features.inputs())?, Batch::new(features.inputs()));
        let (lookup, rows, size) = (Lookup::default(), Vec::new(), u64::from(size).max(1));
        Ok(Self { dataset, features, model, batch, lookup, rows, size })
    }

    /// Whether the first records mean something: better to know before anything is trained.
    pub(crate) fn try_first(&mut self) -> Result<(), ReadError> {
        read(&self.dataset, &mut self.features, 0..self.dataset.len().min(8), &mut self.batch).map(|_| ())
    }

    /// What the scores mean.
    pub(crate) fn task(&self) -> Task {
        self.model.task()
    }

    /// What the model consists of.
    pub(crate) fn declaration(&self) -> &Declaration {
        self.model.declaration()
    }

    /// Scores all records, and gives some at a time; how many were left out. Who computes holds a permit.
    pub(crate) async fn score(
        &mut self,
        values: &mut Values<'_>,
        permits: &Semaphore,
        mut give: impl FnMut(Scored<'_>),
    ) -> Result<u64, ScoringError> {
        let end = self.dataset.len();
        let (mut variables, mut all_left_out) = (Vec::new(), 0);
        for first in (0..end).step_by(self.size as usize) {
            let (dataset, features, batch) = (&self.dataset, &mut self.features, &mut self.batch);
            let range = first..(first + self.size).min(end);
            let left_out = tokio::task::block_in_place(|| read(dataset, features, range.clone(), batch))?;
            all_left_out += left_out.len() as u64;
            if self.batch.is_empty() {
                continue;
            }
            self.model.look_up(&self.batch, &mut self.lookup);
            values.pull(&self.lookup, &mut self.rows, &mut variables).await?;
            let (lookup, rows) = (&self.lookup, &self.rows);
            let step = Step { batch: &self.batch, lookup, variables: &variables, rows };
            // It is never closed.
            let _permit = permits.acquire().await.ok();
            let scores = tokio::task::block_in_place(|| self.model.scores(step));
            let records: Vec<u64> = range.filter(|record| left_out.binary_search(record).is_err()).collect();
            give(Scored { records: &records, scores, labels: self.batch.labels() });
        }
        Ok(all_left_out)
    }
}

impl Values<'_> {
    async fn pull(
        &mut self,
        lookup: &Lookup,
        rows: &mut Vec<Vec<f32>>,
        variables: &mut Vec<Vec<f32>>,
    ) -> Result<(), ScoringError> {
        let wanted: Vec<(TableId, &[u64])> =
            (0..).map(TableId).zip(lookup.tables().iter().map(TableLookup::keys)).collect();
        match self {
            Self::Servers(client) => {
                client.pull(&wanted, PullFor::Evaluation, rows).await?;
                *variables = client.variables();
            }
            Self::Snapshot(snapshot) => {
                snapshot.pull(&wanted, rows).await?;
                if variables.is_empty() {
                    *variables = snapshot.variables();
                }
            }
            Self::Saved(model) => {
                rows.resize_with(wanted.len(), Vec::new);
                for ((table, keys), rows) in wanted.iter().zip(rows) {
                    model.rows(*table, keys, rows)?;
                }
                if variables.is_empty() {
                    *variables = model.variables()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flexor_data::Options;

    use super::*;

    #[test]
    fn a_row_that_cannot_be_scored_is_named_by_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("people.csv");
        std::fs::write(&path, "label,n0,c0\n1,0.5,a\n1,0.5,a,b\n").unwrap();
        let dataset = Arc::new(Dataset::open(std::slice::from_ref(&path), &Options::default()).unwrap());
        let schema = "clicks:numbers=1,fields=1".parse().unwrap();
        let mut scorer = Scorer::new(dataset, &schema, &"logistic".parse().unwrap(), 8).unwrap();
        let refused = scorer.try_first().unwrap_err().to_string();
        let place = format!("{}: record 1, at byte 20, line 3: it has 4 columns, and a record has 3", path.display());
        assert!(refused.starts_with(&place), "{refused}");
    }
}
