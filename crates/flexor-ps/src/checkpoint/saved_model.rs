//! A checkpoint in memory, to be looked at: what evaluation and prediction read where no server is asked.
//!
//! Rows that nobody trained have their initial values, as on a server. It cannot be trained on.

use std::path::Path;

use super::{Checkpoint, CheckpointError, CheckpointId, Folder, list};
use crate::buckets::Buckets;
use crate::hosted::{DenseAnswer, Hosted, KnownSlice, PullError, Reading};
use crate::layout::{Layout, TableId};
use crate::placement::PartitionId;
use crate::push::{BadRequest, Wanted};
use crate::spec::ModelSpec;

/// A model as a checkpoint has it.
#[derive(Debug)]
pub struct SavedModel {
    id: CheckpointId,
    hosted: Hosted,
}

impl SavedModel {
    /// Reads a checkpoint of a folder, or its latest one. One that is larger than so many bytes is not read.
    pub fn open(folder: &Path, id: Option<CheckpointId>, at_most: u64) -> Result<Self, CheckpointError> {
        let storage = Folder::new(folder);
        let whole = list(&storage)?;
        let found = match id {
            Some(id) => whole.into_iter().find(|one| *one == id),
            None => whole.last().copied(),
        };
        let none = || CheckpointError::None { folder: folder.display().to_string(), wanted: id };
        let checkpoint = Checkpoint::open(&storage, found.ok_or_else(none)?)?;
        let manifest = checkpoint.manifest();
        let bytes = manifest.files.iter().map(|file| file.bytes).sum();
        if bytes > at_most {
            return Err(CheckpointError::TooLarge { id: manifest.id, bytes, at_most });
        }
        let layout = Layout::new(manifest.model.clone()).map_err(|error| {
            CheckpointError::damaged(&manifest.id.manifest(), 0, format!("its model cannot be: {error}"))
        })?;
        let hosted = Hosted::new(layout);
        let all: Vec<PartitionId> = PartitionId::all().collect();
        for partition in checkpoint.restore(&hosted.layout(), &all)? {
            hosted.install(partition);
        }
        Ok(Self { id: manifest.id, hosted })
    }

    /// Which checkpoint it is.
    pub fn id(&self) -> CheckpointId {
        self.id
    }

    /// What it is a model of.
    pub fn spec(&self) -> ModelSpec {
        self.hosted.layout().spec().clone()
    }

    /// The rows of a table, in the order of the keys.
    pub fn rows(&self, table: TableId, keys: &[u64], out: &mut Vec<f32>) -> Result<(), PullError> {
        let layout = self.hosted.layout();
        let tables = layout.spec().tables.len();
        let name = layout.name_hash(table).ok_or(BadRequest::UnknownTable { table, tables })?;
        let buckets = Buckets::of(name, keys);
        self.hosted.pull(Wanted { table, keys, buckets: &buckets }, Reading::Peek, out).map(|_| ())
    }

    /// The values of all variables.
    pub fn variables(&self) -> Result<Vec<Vec<f32>>, PullError> {
        let layout = self.hosted.layout();
        let mut all: Vec<Vec<f32>> = layout.spec().variables.iter().map(|_| Vec::new()).collect();
        let slices: Vec<KnownSlice> = layout.slices().map(|slice| KnownSlice { slice, known: None }).collect();
        self.hosted.pull_dense(&slices, Reading::Peek, |slice, answer| {
            if let DenseAnswer::Modified { weights, .. } = answer {
                all[slice.variable as usize].extend_from_slice(weights);
            }
        })?;
        Ok(all)
    }
}
