//! Which checkpoints there are, and which are kept.

use std::collections::BTreeSet;

use super::manifest::Manifest;
use super::restore::Checkpoint;
use super::storage::Storage;
use super::{CheckpointError, CheckpointId, MANIFEST};

/// The checkpoints that are whole, oldest first.
pub fn list(storage: &dyn Storage) -> Result<Vec<CheckpointId>, CheckpointError> {
    Ok(folders(storage)?.whole.into_iter().collect())
}

/// The latest whole checkpoint.
pub fn latest(storage: &dyn Storage) -> Result<Option<CheckpointId>, CheckpointError> {
    Ok(folders(storage)?.whole.last().copied())
}

/// Deletes all but the last `count` checkpoints and those from `known` on, and what was begun before the latest and never
/// finished. With 0 all are kept. Gives those that were deleted.
///
/// A checkpoint in which nothing was learnt takes the place of the one before it, not of the oldest: a job that waits, or
/// that is refused, does not push out what was learnt before. And where checkpoints have appeared behind `known` beside
/// the latest, nothing is deleted: they may be another job's.
pub fn keep_last(
    storage: &dyn Storage,
    count: usize,
    known: Option<CheckpointId>,
) -> Result<Vec<CheckpointId>, CheckpointError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let Folders { whole, begun } = folders(storage)?;
    let unknown = |id: &CheckpointId| known.is_some_and(|known| *id > known);
    if whole.iter().rev().skip(1).any(unknown) {
        return Ok(Vec::new());
    }
    let (repeated, distinct) = by_contents(storage, &whole);
    let old = distinct.into_iter().rev().skip(count).chain(repeated);
    let old = old.filter(|id| known.is_none_or(|known| *id < known));
    let abandoned = begun.into_iter().filter(|id| whole.last().is_some_and(|latest| id < latest));
    let doomed: BTreeSet<CheckpointId> = old.chain(abandoned).collect();
    for id in &doomed {
        delete(storage, *id)?;
    }
    Ok(doomed.into_iter().collect())
}

/// Deletes what was begun before this one and never finished. On a full disk it would be in the way of the next.
pub fn delete_unfinished(storage: &dyn Storage, before: CheckpointId) -> Result<(), CheckpointError> {
    let begun = folders(storage)?.begun;
    begun.into_iter().filter(|id| *id < before).try_for_each(|id| delete(storage, id))
}

/// The checkpoints that a later one repeats, and the others.
fn by_contents(
    storage: &dyn Storage,
    whole: &BTreeSet<CheckpointId>,
) -> (BTreeSet<CheckpointId>, BTreeSet<CheckpointId>) {
    let contents = |id: &CheckpointId| {
        let checkpoint = Checkpoint::open(storage, *id).ok()?;
        let Manifest { fingerprint, versions, .. } = checkpoint.manifest().clone();
        Some((fingerprint, versions))
    };
    let all: Vec<_> = whole.iter().map(|id| (*id, contents(id))).collect();
    let is_repeated = |place: usize| {
        let next = all.get(place + 1).and_then(|(_, contents)| contents.as_ref());
        next.is_some() && next == all[place].1.as_ref()
    };
    let (repeated, distinct): (Vec<_>, Vec<_>) = (0..all.len()).partition(|place| is_repeated(*place));
    let ids = |places: Vec<usize>| places.into_iter().map(|place| all[place].0).collect();
    (ids(repeated), ids(distinct))
}

fn delete(storage: &dyn Storage, id: CheckpointId) -> Result<(), CheckpointError> {
    // Without its manifest it is no checkpoint any more, even if the rest is never deleted.
    storage.delete(&id.manifest()).map_err(CheckpointError::storage("delete", &id.manifest()))?;
    storage.delete_folder(&id.folder()).map_err(CheckpointError::storage("delete", &id.folder()))
}

struct Folders {
    whole: BTreeSet<CheckpointId>,
    begun: BTreeSet<CheckpointId>,
}

fn folders(storage: &dyn Storage) -> Result<Folders, CheckpointError> {
    let names = storage.list().map_err(CheckpointError::storage("list", "the checkpoints"))?;
    let mut folders = Folders { whole: BTreeSet::new(), begun: BTreeSet::new() };
    for (folder, file) in names.iter().filter_map(|name| name.split_once('/')) {
        if let Some(id) = CheckpointId::of_folder(folder) {
            if file == MANIFEST { &mut folders.whole } else { &mut folders.begun }.insert(id);
        }
    }
    folders.begun.retain(|id| !folders.whole.contains(id));
    Ok(folders)
}
