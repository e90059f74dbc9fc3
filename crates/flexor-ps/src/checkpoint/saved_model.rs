//! A read-only model in memory, loaded from a checkpoint, for evaluation and prediction without servers.
//!
//! Rows that were never trained have their initial values, as on a server.

use std::path::Path;

use super::{Checkpoint, CheckpointError, CheckpointId, DirectoryStorage, list};
use crate::buckets::Buckets;
use crate::hosted::{DenseAnswer, HostedPartitions, PullError, ReadMode, SliceRequest};
use crate::layout::{Layout, TableId};
use crate::placement::PartitionId;
use crate::push::{BadRequest, RowKeys};
use crate::spec::ModelSpec;

#[derive(Debug)]
pub struct SavedModel {
    id: CheckpointId,
    hosted: HostedPartitions,
}

impl SavedModel {
    /// Loads checkpoint `id` from a directory, or the latest one. A checkpoint above `at_most` bytes is an error.
    pub fn open(directory: &Path, id: Option<CheckpointId>, at_most: u64) -> Result<Self, CheckpointError> {
        let storage = DirectoryStorage::new(directory);
        let complete = list(&storage)?;
        let found = match id {
            Some(id) => complete.into_iter().find(|one| *one == id),
            None => complete.last().copied(),
        };
        let none = || CheckpointError::NotFound { directory: directory.display().to_string(), wanted: id };
        let checkpoint = Checkpoint::open(&storage, found.ok_or_else(none)?)?;
        let manifest = checkpoint.manifest();
        let bytes = manifest.files.iter().map(|file| file.bytes).sum();
        if bytes > at_most {
            return Err(CheckpointError::TooLarge { id: manifest.id, bytes, at_most });
        }
        let layout = Layout::new(manifest.model.clone()).map_err(|error| {
            CheckpointError::damaged(&manifest.id.manifest(), 0, format!("its model is invalid: {error}"))
        })?;
        let hosted = HostedPartitions::new(layout);
        let all: Vec<PartitionId> = PartitionId::all().collect();
        for partition in checkpoint.restore(&hosted.layout(), &all)? {
            hosted.install(partition);
        }
        Ok(Self { id: manifest.id, hosted })
    }

    pub fn id(&self) -> CheckpointId {
        self.id
    }

    pub fn spec(&self) -> ModelSpec {
        self.hosted.layout().spec().clone()
    }

    /// The rows of a table, in the order of the keys.
    pub fn rows(&self, table: TableId, keys: &[u64], out: &mut Vec<f32>) -> Result<(), PullError> {
        let layout = self.hosted.layout();
        let tables = layout.spec().tables.len();
        let name = layout.name_hash(table).ok_or(BadRequest::UnknownTable { table, tables })?;
        let buckets = Buckets::of(name, keys);
        self.hosted.pull(RowKeys { table, keys, buckets: &buckets }, ReadMode::Peek, out).map(|_| ())
    }

    pub fn variables(&self) -> Result<Vec<Vec<f32>>, PullError> {
        let layout = self.hosted.layout();
        let mut all: Vec<Vec<f32>> = layout.spec().variables.iter().map(|_| Vec::new()).collect();
        let slices: Vec<SliceRequest> = layout.slices().map(|slice| SliceRequest { slice, known: None }).collect();
        self.hosted.pull_dense(&slices, ReadMode::Peek, |slice, answer| {
            if let DenseAnswer::Modified { weights, .. } = answer {
                all[slice.variable as usize].extend_from_slice(weights);
            }
        })?;
        Ok(all)
    }
}
