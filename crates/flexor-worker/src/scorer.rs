//! Scores records with given parameters, for evaluation and prediction.
//!
//! Parameters come from the servers, from a snapshot of the servers, or from a checkpoint in memory
//! ([`ParameterSource`]). Scoring trains nothing and creates no rows.

use std::sync::Arc;

use flexor_data::Dataset;
use flexor_ps::checkpoint::SavedModel;
use flexor_ps::client::{Client, ClientError, PullFor, Snapshot, SnapshotError};
use flexor_ps::hosted::PullError;
use flexor_ps::layout::TableId;
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::batch_reader::{ReadError, read};
use crate::features::{Features, Schema};
use crate::models::{Architecture, Declaration, Model, Step, Task, UnfitInputs};
use crate::{Batch, Lookup, TableLookup};

/// The source of a model's parameters.
pub(crate) enum ParameterSource<'a> {
    /// The current parameters of the servers.
    Servers(&'a mut Client),
    /// A snapshot of the servers.
    Snapshot(Snapshot<'a>),
    Saved(&'a SavedModel),
}

#[derive(Debug, Error)]
pub enum ScoringError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The parameter servers refuse a request.
    #[error(transparent)]
    Servers(#[from] ClientError),
    /// The snapshot is gone.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The checkpoint lacks the values.
    #[error(transparent)]
    Saved(#[from] PullError),
}

/// A batch of scored records.
pub(crate) struct ScoredRecords<'a> {
    /// Their numbers in the dataset; skipped records are missing.
    pub(crate) records: &'a [u64],
    /// The model's scores, record by record.
    pub(crate) scores: &'a [f32],
    pub(crate) labels: &'a [u32],
}

/// Scores a dataset with a model.
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
    /// Scores `size` records at a time.
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

    /// Parses the first records, so that a wrong schema is found before training.
    pub(crate) fn try_first(&mut self) -> Result<(), ReadError> {
        read(&self.dataset, &mut self.features, 0..self.dataset.len().min(8), &mut self.batch).map(|_| ())
    }

    pub(crate) fn task(&self) -> Task {
        self.model.task()
    }

    pub(crate) fn declaration(&self) -> &Declaration {
        self.model.declaration()
    }

    /// Scores all records, and passes them to `give` batch by batch. Returns the number of skipped records. Computing
    /// takes a permit.
    pub(crate) async fn score(
        &mut self,
        values: &mut ParameterSource<'_>,
        permits: &Semaphore,
        mut give: impl FnMut(ScoredRecords<'_>),
    ) -> Result<u64, ScoringError> {
        let end = self.dataset.len();
        let (mut variables, mut all_skipped) = (Vec::new(), 0);
        for first in (0..end).step_by(self.size as usize) {
            let (dataset, features, batch) = (&self.dataset, &mut self.features, &mut self.batch);
            let range = first..(first + self.size).min(end);
            let skipped_records = tokio::task::block_in_place(|| read(dataset, features, range.clone(), batch))?;
            all_skipped += skipped_records.len() as u64;
            if self.batch.is_empty() {
                continue;
            }
            self.model.look_up(&self.batch, &mut self.lookup);
            values.pull(&self.lookup, &mut self.rows, &mut variables).await?;
            let (lookup, rows) = (&self.lookup, &self.rows);
            let step = Step { batch: &self.batch, lookup, variables: &variables, rows };
            // The semaphore is never closed.
            let _permit = permits.acquire().await.ok();
            let scores = tokio::task::block_in_place(|| self.model.scores(step));
            let records: Vec<u64> = range.filter(|record| skipped_records.binary_search(record).is_err()).collect();
            give(ScoredRecords { records: &records, scores, labels: self.batch.labels() });
        }
        Ok(all_skipped)
    }
}

impl ParameterSource<'_> {
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
    fn an_error_names_the_location_of_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("people.csv");
        std::fs::write(&path, "label,n0,c0\n1,0.5,a\n1,0.5,a,b\n").unwrap();
        let dataset = Arc::new(Dataset::open(std::slice::from_ref(&path), &Options::default()).unwrap());
        let schema = "clicks:numbers=1,fields=1".parse().unwrap();
        let mut scorer = Scorer::new(dataset, &schema, &"logistic".parse().unwrap(), 8).unwrap();
        let refused = scorer.try_first().unwrap_err().to_string();
        let location =
            format!("{}: record 1, at byte 20, line 3: it has 4 columns, and a record has 3", path.display());
        assert!(refused.starts_with(&location), "{refused}");
    }
}
