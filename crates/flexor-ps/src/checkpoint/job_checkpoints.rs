//! Detection of checkpoints that another job writes into the same directory.
//!
//! Files do not name their job, and a new run of a job continues in the directory of the last run. A server therefore
//! remembers which checkpoints existed at its first write and which ones it wrote a part of. Any other checkpoint that
//! appears belongs to another job. So does a checkpoint with a number that this job has not reached yet.

use std::collections::{BTreeMap, BTreeSet};

use super::manifest::FileEntry;
use super::restore::Checkpoint;
use super::retention::{latest, list};
use super::storage::Storage;
use super::write::CheckpointPart;
use super::{CheckpointError, CheckpointId};

/// Attempts for which a server remembers its files: a cancelled checkpoint may still be completed.
const REMEMBERED_ATTEMPTS: u64 = 16;

/// The checkpoints of a directory that belong to this job, as far as one server knows.
#[derive(Debug, Default)]
pub(crate) struct JobCheckpoints {
    /// The last attempt with a part of this server.
    last: Option<CheckpointId>,
    /// Complete checkpoints that existed before, or with a part of this server.
    known: BTreeSet<CheckpointId>,
    /// The files of this server in attempts that were not seen complete yet.
    written: BTreeMap<CheckpointId, Vec<FileEntry>>,
}

impl JobCheckpoints {
    /// Fails if the directory has a checkpoint of another job. Called before a server writes its part of `id`.
    pub(super) fn check_foreign(&mut self, storage: &dyn Storage, id: CheckpointId) -> Result<(), CheckpointError> {
        // If listing fails, the write itself reports the error of the storage.
        let Ok(listed) = list(storage) else { return Ok(()) };
        let mut complete: BTreeSet<CheckpointId> = listed.into_iter().collect();
        let later = complete.split_off(&id);
        if self.last.is_none_or(|last| last.0 + 1 != id.0) {
            // This server had no part in the attempts between, so it assumes that they belong to this job.
            self.written.clear();
            self.known.clone_from(&complete);
        }
        self.last = Some(id);
        let new = complete.difference(&self.known).copied().filter(|new| !self.has_written(storage, *new));
        if let Some(other) = new.chain(later).last() {
            return Err(CheckpointError::OtherJob { id, other });
        }
        self.written.retain(|one, _| !complete.contains(one) && one.0 + REMEMBERED_ATTEMPTS > id.0);
        self.known = complete;
        Ok(())
    }

    /// Records the files of this server.
    pub(super) fn record(&mut self, id: CheckpointId, part: &CheckpointPart) {
        self.written.insert(id, part.files.clone());
    }

    /// Whether a checkpoint contains files of this server. An unreadable checkpoint is not counted as another job's.
    fn has_written(&self, storage: &dyn Storage, id: CheckpointId) -> bool {
        let Ok(checkpoint) = Checkpoint::open(storage, id) else { return true };
        let written = self.written.get(&id).map(Vec::as_slice).unwrap_or_default();
        written.iter().any(|file| checkpoint.manifest().files.contains(file))
    }
}

/// Fails if a checkpoint with this or a higher number exists: `id` is new in this job, so another job wrote it.
pub(super) fn refuse_later(storage: &dyn Storage, id: CheckpointId) -> Result<(), CheckpointError> {
    match latest(storage)?.filter(|last| *last >= id) {
        Some(other) => Err(CheckpointError::OtherJob { id, other }),
        None => Ok(()),
    }
}
