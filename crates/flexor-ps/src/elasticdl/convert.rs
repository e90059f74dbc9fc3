//! A checkpoint of ElasticDL's placement, or of ElasticDL itself, as native servers read it.
//!
//! The other direction needs no files of its own: [`Kept`] reads what native servers write.

use std::path::Path;

use super::kept::{Kept, KeptError};
use crate::checkpoint::{self, CheckpointId, Folder, Manifest, Moment};

/// Writes a checkpoint that was read into `folder`, as one that native servers go on from. It has no data ledger: the
/// data begins from the start.
pub fn convert(kept: Kept, folder: &Path) -> Result<Manifest, KeptError> {
    let id = CheckpointId(kept.version().unsigned_abs().into());
    let hosted = kept.for_another_job()?;
    let storage = Folder::new(folder);
    let part = checkpoint::put_part(&storage, id, "0-of-1", &hosted, Moment::OneByOne)?;
    let model = hosted.layout().spec().clone();
    Ok(checkpoint::put_manifest(&storage, id, &model, vec![part], Vec::new())?)
}
