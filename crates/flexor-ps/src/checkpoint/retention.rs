//! Listing checkpoints and deleting old ones.

use std::collections::BTreeSet;

use super::manifest::Manifest;
use super::restore::Checkpoint;
use super::storage::Storage;
use super::{CheckpointError, CheckpointId, MANIFEST};

/// The complete checkpoints, oldest first.
pub fn list(storage: &dyn Storage) -> Result<Vec<CheckpointId>, CheckpointError> {
    Ok(find_checkpoints(storage)?.complete.into_iter().collect())
}

/// The latest complete checkpoint.
pub fn latest(storage: &dyn Storage) -> Result<Option<CheckpointId>, CheckpointError> {
    Ok(find_checkpoints(storage)?.complete.last().copied())
}

/// Deletes old checkpoints, except the last `count` and those from `known` on. Also deletes incomplete ones older than
/// the latest. A `count` of 0 keeps all. Returns the deleted checkpoints.
///
/// A checkpoint with the same contents as its predecessor replaces the predecessor, not the oldest. So an idle or
/// rejected job does not push out trained states. If more than one checkpoint is newer than `known`, nothing is
/// deleted: the others may belong to another job.
pub fn keep_last(
    storage: &dyn Storage,
    count: usize,
    known: Option<CheckpointId>,
) -> Result<Vec<CheckpointId>, CheckpointError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let FoundCheckpoints { complete, incomplete } = find_checkpoints(storage)?;
    let unknown = |id: &CheckpointId| known.is_some_and(|known| *id > known);
    if complete.iter().rev().skip(1).any(unknown) {
        return Ok(Vec::new());
    }
    let (repeated, distinct) = by_contents(storage, &complete);
    let old = distinct.into_iter().rev().skip(count).chain(repeated);
    let old = old.filter(|id| known.is_none_or(|known| *id < known));
    let incomplete_before_latest =
        incomplete.into_iter().filter(|id| complete.last().is_some_and(|latest| id < latest));
    let to_delete: BTreeSet<CheckpointId> = old.chain(incomplete_before_latest).collect();
    for id in &to_delete {
        delete(storage, *id)?;
    }
    Ok(to_delete.into_iter().collect())
}

/// Deletes incomplete checkpoints older than `before`. On a full disk they would leave no room for the next one.
pub fn delete_incomplete(storage: &dyn Storage, before: CheckpointId) -> Result<(), CheckpointError> {
    let incomplete = find_checkpoints(storage)?.incomplete;
    incomplete.into_iter().filter(|id| *id < before).try_for_each(|id| delete(storage, id))
}

/// Splits checkpoints into those whose successor has the same contents, and the others.
fn by_contents(
    storage: &dyn Storage,
    complete: &BTreeSet<CheckpointId>,
) -> (BTreeSet<CheckpointId>, BTreeSet<CheckpointId>) {
    let contents = |id: &CheckpointId| {
        let checkpoint = Checkpoint::open(storage, *id).ok()?;
        let Manifest { fingerprint, versions, .. } = checkpoint.manifest().clone();
        Some((fingerprint, versions))
    };
    let all: Vec<_> = complete.iter().map(|id| (*id, contents(id))).collect();
    let is_repeated = |index: usize| {
        let next = all.get(index + 1).and_then(|(_, contents)| contents.as_ref());
        next.is_some() && next == all[index].1.as_ref()
    };
    let (repeated, distinct): (Vec<_>, Vec<_>) = (0..all.len()).partition(|index| is_repeated(*index));
    let ids = |indices: Vec<usize>| indices.into_iter().map(|index| all[index].0).collect();
    (ids(repeated), ids(distinct))
}

fn delete(storage: &dyn Storage, id: CheckpointId) -> Result<(), CheckpointError> {
    // Without its manifest it is no longer a checkpoint, even if deleting the rest fails.
    storage.delete(&id.manifest()).map_err(CheckpointError::storage("delete", &id.manifest()))?;
    storage.delete_directory(&id.directory()).map_err(CheckpointError::storage("delete", &id.directory()))
}

struct FoundCheckpoints {
    complete: BTreeSet<CheckpointId>,
    incomplete: BTreeSet<CheckpointId>,
}

fn find_checkpoints(storage: &dyn Storage) -> Result<FoundCheckpoints, CheckpointError> {
    let names = storage.list().map_err(CheckpointError::storage("list", "the checkpoints"))?;
    let mut found = FoundCheckpoints { complete: BTreeSet::new(), incomplete: BTreeSet::new() };
    for (directory, file) in names.iter().filter_map(|name| name.split_once('/')) {
        if let Some(id) = CheckpointId::of_directory(directory) {
            if file == MANIFEST { &mut found.complete } else { &mut found.incomplete }.insert(id);
        }
    }
    found.incomplete.retain(|id| !found.complete.contains(id));
    Ok(found)
}
