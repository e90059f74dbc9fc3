//! Conversion of a checkpoint of ElasticDL's placement, or of ElasticDL itself, to a native checkpoint.
//!
//! The other direction needs no conversion: [`LoadedCheckpoint`] reads native checkpoints.

use std::path::Path;

use super::loaded_checkpoint::{LoadError, LoadedCheckpoint};
use crate::checkpoint::{self, CheckpointCut, CheckpointId, DirectoryStorage, Manifest};

/// Writes a loaded checkpoint into `directory` as a native checkpoint. It has no data ledger, so a job that restores it
/// starts the data from the beginning.
pub fn convert(loaded: LoadedCheckpoint, directory: &Path) -> Result<Manifest, LoadError> {
    let id = CheckpointId(loaded.version().unsigned_abs().into());
    let hosted = loaded.for_another_job()?;
    let storage = DirectoryStorage::new(directory);
    let part = checkpoint::put_part(&storage, id, "0-of-1", &hosted, CheckpointCut::PerPartition)?;
    let model = hosted.layout().spec().clone();
    Ok(checkpoint::put_manifest(&storage, id, &model, vec![part], Vec::new())?)
}
