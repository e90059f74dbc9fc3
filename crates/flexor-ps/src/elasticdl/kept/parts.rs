//! Finding a checkpoint in folders, and reading the parts that servers of ours have written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Kept, KeptError, Source, io_at};
use crate::checkpoint::{self, Checkpoint, CheckpointId, Folder};
use crate::elasticdl::checkpoints::{PartOf, versions};
use crate::layout::Layout;
use crate::partition::Partition;
use crate::placement::PartitionId;

/// What is in a folder.
pub(super) enum Found {
    /// ElasticDL's own files, all of them.
    ModelFiles(Vec<PathBuf>),
    /// A folder for each server of this wire.
    Parts(Vec<PathBuf>),
    /// A checkpoint of native servers.
    Native {
        /// The folder of its folder.
        root: PathBuf,
        /// Which one.
        id: CheckpointId,
    },
}

/// A number and how many there are, as in `ps-0-of-2`.
struct Share {
    index: usize,
    count: usize,
}

impl Share {
    fn of(name: &str, prefix: &str, suffix: &str) -> Option<Self> {
        let (index, count) = name.strip_prefix(prefix)?.strip_suffix(suffix)?.split_once("-of-")?;
        let (index, count) = (index.parse().ok()?, count.parse().ok()?);
        (index < count).then_some(Self { index, count })
    }
}

pub(super) fn find(path: &Path) -> Result<Found, KeptError> {
    if let Some(found) = find_here(path)? {
        return Ok(found);
    }
    // The latest that is whole; one that is being written is not.
    for version in versions(path).map_err(io_at(path))?.into_iter().rev() {
        match find_here(&path.join(format!("version-{version}"))) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) | Err(KeptError::Incomplete { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(KeptError::Nothing(path.to_owned()))
}

fn find_here(path: &Path) -> Result<Option<Found>, KeptError> {
    if let Some(parts) = complete(path, "ps-", "", |part| has_manifest(&part))? {
        return Ok(Some(Found::Parts(parts)));
    }
    if let Some(files) = complete(path, "variables-", ".ckpt", |file| file.is_file())? {
        return Ok(Some(Found::ModelFiles(files)));
    }
    if let Some(id) = checkpoint::latest(&Folder::new(path))? {
        return Ok(Some(Found::Native { root: path.to_owned(), id }));
    }
    let (root, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
    let (Some(root), Some(name)) = (root, name) else { return Ok(None) };
    let ids = checkpoint::list(&Folder::new(root))?;
    let found = ids.into_iter().find(|id| id.folder() == name);
    Ok(found.map(|id| Found::Native { root: root.to_owned(), id }))
}

/// The parts of a folder in order, if there are any; an error unless there are as many as their names say.
fn complete(
    path: &Path,
    prefix: &str,
    suffix: &str,
    is_whole: impl Fn(PathBuf) -> bool,
) -> Result<Option<Vec<PathBuf>>, KeptError> {
    let mut parts: Vec<(Share, PathBuf)> = Vec::new();
    for entry in fs::read_dir(path).map_err(io_at(path))? {
        let entry = entry.map_err(io_at(path))?;
        let name = entry.file_name();
        if let Some(share) = name.to_str().and_then(|name| Share::of(name, prefix, suffix)) {
            parts.push((share, entry.path()));
        }
    }
    let Some(wanted) = parts.iter().map(|(share, _)| share.count).max() else { return Ok(None) };
    parts.retain(|(share, path)| share.count == wanted && is_whole(path.clone()));
    parts.sort_by_key(|(share, _)| share.index);
    match parts.len() == wanted {
        true => Ok(Some(parts.into_iter().map(|(_, path)| path).collect())),
        false => Err(KeptError::Incomplete { path: path.to_owned(), found: parts.len(), wanted }),
    }
}

fn has_manifest(part: &Path) -> bool {
    matches!(checkpoint::latest(&Folder::new(part)), Ok(Some(_)))
}

/// Reads what servers of this wire have written.
pub(super) fn read(parts: &[PathBuf]) -> Result<Kept, KeptError> {
    let mut all: Option<Kept> = None;
    for part in parts {
        let id = checkpoint::latest(&Folder::new(part))?.ok_or_else(|| KeptError::Nothing(part.clone()))?;
        let kept = read_native(part, id)?;
        match &mut all {
            None => all = Some(kept),
            Some(all) => {
                if all.optimizer != kept.optimizer || all.seed != kept.seed {
                    return Err(KeptError::Contradiction("the optimizer or the seed".to_owned()));
                }
                all.version = all.version.max(kept.version);
                all.sources.extend(kept.sources);
            }
        }
    }
    all.ok_or_else(|| KeptError::Nothing(PathBuf::new()))
}

/// Reads a checkpoint as native servers write it.
pub(super) fn read_native(root: &Path, id: CheckpointId) -> Result<Kept, KeptError> {
    let storage = Folder::new(root);
    let checkpoint = Checkpoint::open(&storage, id)?;
    let manifest = checkpoint.manifest();
    let layout = Layout::new(manifest.model.clone())?;
    let all: Vec<PartitionId> = PartitionId::all().collect();
    let partitions = checkpoint.restore(&layout, &all)?;
    let version = match serde_json::from_slice::<PartOf>(&manifest.ledger) {
        Ok(part) => part.version,
        // It was converted before, under the number of its version, and counts updates from there.
        Err(_) if manifest.ledger.is_empty() => i32::try_from(id.0).unwrap_or(i32::MAX),
        // Native servers count updates by partition.
        Err(_) => i32::try_from(partitions.iter().map(Partition::version).max().unwrap_or(0)).unwrap_or(i32::MAX),
    };
    let (optimizer, seed) = (manifest.model.optimizer, manifest.model.seed);
    let sources = vec![Source { layout: Arc::clone(&layout), partitions: partitions.into_iter() }];
    Ok(Kept { sources, optimizer, seed, version })
}
