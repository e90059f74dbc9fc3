//! Finding a checkpoint in a directory, and reading the parts that Flexor's servers wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{LoadError, LoadedCheckpoint, PartSource, io_at};
use crate::checkpoint::{self, Checkpoint, CheckpointId, DirectoryStorage};
use crate::elasticdl::checkpoints::{PartMetadata, versions};
use crate::layout::Layout;
use crate::partition::Partition;
use crate::placement::PartitionId;

/// The kind and location of a checkpoint.
pub(super) enum CheckpointFiles {
    /// ElasticDL's own files, one per server.
    ModelFiles(Vec<PathBuf>),
    /// A directory per ElasticDL-compatible server.
    Parts(Vec<PathBuf>),
    /// A checkpoint of native servers.
    Native {
        /// The directory that contains the checkpoint.
        root: PathBuf,
        id: CheckpointId,
    },
}

/// Index and count in a name such as `ps-0-of-2`.
struct PartIndex {
    index: usize,
    count: usize,
}

impl PartIndex {
    fn of(name: &str, prefix: &str, suffix: &str) -> Option<Self> {
        let (index, count) = name.strip_prefix(prefix)?.strip_suffix(suffix)?.split_once("-of-")?;
        let (index, count) = (index.parse().ok()?, count.parse().ok()?);
        (index < count).then_some(Self { index, count })
    }
}

pub(super) fn find(path: &Path) -> Result<CheckpointFiles, LoadError> {
    if let Some(found) = find_here(path)? {
        return Ok(found);
    }
    // The latest complete one. A checkpoint in progress is incomplete.
    for version in versions(path).map_err(io_at(path))?.into_iter().rev() {
        match find_here(&path.join(format!("version-{version}"))) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) | Err(LoadError::Incomplete { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(LoadError::Nothing(path.to_owned()))
}

fn find_here(path: &Path) -> Result<Option<CheckpointFiles>, LoadError> {
    if let Some(parts) = complete(path, "ps-", "", |part| has_manifest(&part))? {
        return Ok(Some(CheckpointFiles::Parts(parts)));
    }
    if let Some(files) = complete(path, "variables-", ".ckpt", |file| file.is_file())? {
        return Ok(Some(CheckpointFiles::ModelFiles(files)));
    }
    if let Some(id) = checkpoint::latest(&DirectoryStorage::new(path))? {
        return Ok(Some(CheckpointFiles::Native { root: path.to_owned(), id }));
    }
    let (root, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
    let (Some(root), Some(name)) = (root, name) else { return Ok(None) };
    let ids = checkpoint::list(&DirectoryStorage::new(root))?;
    let found = ids.into_iter().find(|id| id.directory() == name);
    Ok(found.map(|id| CheckpointFiles::Native { root: root.to_owned(), id }))
}

/// The parts in a directory, sorted by index; `None` without parts. Fails if some of the parts are missing.
fn complete(
    path: &Path,
    prefix: &str,
    suffix: &str,
    is_whole: impl Fn(PathBuf) -> bool,
) -> Result<Option<Vec<PathBuf>>, LoadError> {
    let mut parts: Vec<(PartIndex, PathBuf)> = Vec::new();
    for entry in fs::read_dir(path).map_err(io_at(path))? {
        let entry = entry.map_err(io_at(path))?;
        let name = entry.file_name();
        if let Some(share) = name.to_str().and_then(|name| PartIndex::of(name, prefix, suffix)) {
            parts.push((share, entry.path()));
        }
    }
    let Some(wanted) = parts.iter().map(|(share, _)| share.count).max() else { return Ok(None) };
    parts.retain(|(share, path)| share.count == wanted && is_whole(path.clone()));
    parts.sort_by_key(|(share, _)| share.index);
    match parts.len() == wanted {
        true => Ok(Some(parts.into_iter().map(|(_, path)| path).collect())),
        false => Err(LoadError::Incomplete { path: path.to_owned(), found: parts.len(), wanted }),
    }
}

fn has_manifest(part: &Path) -> bool {
    matches!(checkpoint::latest(&DirectoryStorage::new(part)), Ok(Some(_)))
}

/// Reads the parts of ElasticDL-compatible servers.
pub(super) fn read(parts: &[PathBuf]) -> Result<LoadedCheckpoint, LoadError> {
    let mut all: Option<LoadedCheckpoint> = None;
    for part in parts {
        let id = checkpoint::latest(&DirectoryStorage::new(part))?.ok_or_else(|| LoadError::Nothing(part.clone()))?;
        let loaded = read_native(part, id)?;
        match &mut all {
            None => all = Some(loaded),
            Some(all) => {
                if all.optimizer != loaded.optimizer || all.seed != loaded.seed {
                    return Err(LoadError::Contradiction("the optimizer or the seed".to_owned()));
                }
                all.version = all.version.max(loaded.version);
                all.sources.extend(loaded.sources);
            }
        }
    }
    all.ok_or_else(|| LoadError::Nothing(PathBuf::new()))
}

/// Reads a checkpoint in the native format.
pub(super) fn read_native(root: &Path, id: CheckpointId) -> Result<LoadedCheckpoint, LoadError> {
    let storage = DirectoryStorage::new(root);
    let checkpoint = Checkpoint::open(&storage, id)?;
    let manifest = checkpoint.manifest();
    let layout = Layout::new(manifest.model.clone())?;
    let all: Vec<PartitionId> = PartitionId::all().collect();
    let partitions = checkpoint.restore(&layout, &all)?;
    let version = match serde_json::from_slice::<PartMetadata>(&manifest.ledger) {
        Ok(part) => part.version,
        // A converted checkpoint: its number is the version at conversion, and its partitions count from 0.
        Err(_) if manifest.ledger.is_empty() => i32::try_from(id.0).unwrap_or(i32::MAX),
        // Native servers count versions per partition.
        Err(_) => i32::try_from(partitions.iter().map(Partition::version).max().unwrap_or(0)).unwrap_or(i32::MAX),
    };
    let (optimizer, seed) = (manifest.model.optimizer, manifest.model.seed);
    let sources = vec![PartSource { layout: Arc::clone(&layout), partitions: partitions.into_iter() }];
    Ok(LoadedCheckpoint { sources, optimizer, seed, version })
}
