//! Whose the checkpoints of a folder are: two jobs that write into one would take each other's for their own.
//!
//! A folder says nothing of jobs, and a new run of a job goes on in the folder of the last one. So a server goes by what
//! it has seen itself: what lay there when it first wrote, and what it had a part in. Whatever else appears is another
//! job's, and so is everything that has a number which this job has yet to come to.

use std::collections::{BTreeMap, BTreeSet};

use super::keep::{latest, list};
use super::manifest::FileEntry;
use super::restore::Checkpoint;
use super::storage::Storage;
use super::write::Part;
use super::{CheckpointError, CheckpointId};

/// For how many attempts a server remembers what it has written: one that was given up may still become whole.
const REMEMBERED: u64 = 16;

/// What a server knows of the folder that it writes into.
#[derive(Debug, Default)]
pub(crate) struct Acquaintance {
    /// The attempt that it had a part in last.
    last: Option<CheckpointId>,
    /// Those that were there, or that it had a part in.
    seen: BTreeSet<CheckpointId>,
    /// What it has written of attempts that were not seen to be whole.
    written: BTreeMap<CheckpointId, Vec<FileEntry>>,
}

impl Acquaintance {
    /// A checkpoint is to be written: is there one that nobody of this job has written?
    pub(super) fn look(&mut self, storage: &dyn Storage, id: CheckpointId) -> Result<(), CheckpointError> {
        // Where nothing can be listed, writing says what is wrong with the place.
        let Ok(listed) = list(storage) else { return Ok(()) };
        let mut whole: BTreeSet<CheckpointId> = listed.into_iter().collect();
        let later = whole.split_off(&id);
        if self.last.is_none_or(|last| last.0 + 1 != id.0) {
            // It had no part in those between, which are this job's as far as it knows.
            self.written.clear();
            self.seen.clone_from(&whole);
        }
        self.last = Some(id);
        let new = whole.difference(&self.seen).copied().filter(|new| !self.has_written(storage, *new));
        if let Some(other) = new.chain(later).last() {
            return Err(CheckpointError::OtherJob { id, other });
        }
        self.written.retain(|one, _| !whole.contains(one) && one.0 + REMEMBERED > id.0);
        self.seen = whole;
        Ok(())
    }

    /// A part was written.
    pub(super) fn wrote(&mut self, id: CheckpointId, part: &Part) {
        self.written.insert(id, part.files.clone());
    }

    /// Whether a checkpoint has in it what this server has written for it. One that cannot be read is nobody's.
    fn has_written(&self, storage: &dyn Storage, id: CheckpointId) -> bool {
        let Ok(checkpoint) = Checkpoint::open(storage, id) else { return true };
        let written = self.written.get(&id).map(Vec::as_slice).unwrap_or_default();
        written.iter().any(|file| checkpoint.manifest().files.contains(file))
    }
}

/// Refuses a number that another job has come to: it is new in this one.
pub(super) fn refuse_later(storage: &dyn Storage, id: CheckpointId) -> Result<(), CheckpointError> {
    match latest(storage)?.filter(|last| *last >= id) {
        Some(other) => Err(CheckpointError::OtherJob { id, other }),
        None => Ok(()),
    }
}
