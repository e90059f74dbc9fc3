//! Writing a checkpoint: each server writes its part, then the manifest is written.
//!
//! Writing runs beside training. It pauses after every few MiB, so that requests of workers go first.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::checksums::{CHECKSUM_EVERY, checksums_of};
use super::dense_file::{self, SliceValues};
use super::job_checkpoints::refuse_later;
use super::manifest::{Contents, FileEntry, Manifest, PartitionVersion};
use super::storage::Storage;
use super::table_file::TableFileWriter;
use super::{CheckpointError, CheckpointId};
use crate::hosted::HostedPartitions;
use crate::pace::Pace;
use crate::partition::PartitionExport;
use crate::piece::PieceBody;
use crate::placement::PartitionId;
use crate::snapshot::{Budget, SnapshotLost};
use crate::spec::ModelSpec;

/// Bytes between two pauses. A pause waits for the end of the partition in progress, because every write of training to
/// a partition that is being written must preserve a page first.
const BURST_BYTES: usize = 4 << 20;
/// Bytes after which it pauses even within a partition.
const LONG_BURST_BYTES: usize = 16 << 20;
/// The longest pause, even if a burst took long because of a slow disk or processor.
const MAX_PAUSE: Duration = Duration::from_millis(40);

/// The part of one server, as it goes into the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointPart {
    pub versions: Vec<PartitionVersion>,
    pub files: Vec<FileEntry>,
}

/// The cut of a checkpoint: the moments at which its partitions are captured.
#[derive(Debug)]
pub enum CheckpointCut {
    /// Each partition at its own moment, one after the other. At most one partition is preserved at a time. For
    /// asynchronous training, where partitions have different versions anyway.
    PerPartition,
    /// Like `PerPartition`, for these partitions only.
    PerPartitionOf(Vec<PartitionId>),
    /// All partitions at one moment, captured by [`CheckpointCut::take`].
    Consistent(Vec<PartitionExport>),
}

impl CheckpointCut {
    /// Captures these partitions at this moment; partitions that are not hosted here are omitted. Training may change
    /// at most `budget` bytes until they are written. A caller that needs one moment for all partitions blocks updates.
    pub fn take(hosted: &HostedPartitions, partitions: &[PartitionId], budget: usize) -> Self {
        let (snapshot, budget) = (hosted.next_snapshot(), Budget::new(budget));
        let start =
            |id: &PartitionId| hosted.with(*id, |partition| partition.start_export(snapshot, Arc::clone(&budget))).ok();
        Self::Consistent(partitions.iter().filter_map(start).collect())
    }

    /// The versions of the captured partitions; empty for the per-partition cuts.
    pub fn versions(&self) -> Vec<u64> {
        match self {
            Self::Consistent(exports) => exports.iter().map(PartitionExport::version).collect(),
            Self::PerPartition | Self::PerPartitionOf(_) => Vec::new(),
        }
    }

    /// Releases the snapshots of a cut that will not be written.
    pub fn release(self, hosted: &HostedPartitions) {
        drop(PartitionWriter::new(hosted, self));
    }
}

/// Writes a server's partitions into a checkpoint. `server` becomes part of the file names, such as `0-of-3`. Numbers
/// increase from one checkpoint of a job to the next. Fails without writing if another job writes into the directory.
pub fn write_part(
    storage: &dyn Storage,
    id: CheckpointId,
    server: &str,
    hosted: &HostedPartitions,
    cut: CheckpointCut,
) -> Result<CheckpointPart, CheckpointError> {
    if let Err(error) = hosted.with_job_checkpoints(|known| known.check_foreign(storage, id)) {
        cut.release(hosted);
        return Err(error);
    }
    let part = put_part(storage, id, server, hosted, cut)?;
    hosted.with_job_checkpoints(|known| known.record(id, &part));
    Ok(part)
}

/// [`write_part`] without the check for other jobs.
pub(crate) fn put_part(
    storage: &dyn Storage,
    id: CheckpointId,
    server: &str,
    hosted: &HostedPartitions,
    cut: CheckpointCut,
) -> Result<CheckpointPart, CheckpointError> {
    let layout = hosted.layout();
    let mut writer = PartitionWriter::new(hosted, cut);
    let mut slices = Vec::new();
    let tables = format!("tables-{server}.flx");
    let entry = writer.write_tables(storage, id, &tables, layout.spec(), &mut slices)?;
    let mut part = CheckpointPart { versions: std::mem::take(&mut writer.versions), files: vec![entry] };
    if !slices.is_empty() {
        slices.sort_by_key(|slice| slice.slice);
        let name = format!("dense-{server}.safetensors");
        let bytes = dense_file::to_bytes(&layout, &slices)
            .map_err(|error| CheckpointError::storage("write", &name)(io::Error::other(error)))?;
        put(storage, id, &name, &bytes)?;
        let partitions = part.files[0].partitions.clone();
        let (contents, checksums) = (Contents::Dense, checksums_of(&bytes));
        part.files.push(FileEntry { name, contents, partitions, bytes: bytes.len() as u64, checksums });
    }
    Ok(part)
}

/// Writes the manifest, which completes the checkpoint. `ledger` is the data ledger at the start of the checkpoint.
/// Fails if another job has reached this number meanwhile.
pub fn write_manifest(
    storage: &dyn Storage,
    id: CheckpointId,
    model: &ModelSpec,
    parts: Vec<CheckpointPart>,
    ledger: Vec<u8>,
) -> Result<Manifest, CheckpointError> {
    refuse_later(storage, id)?;
    put_manifest(storage, id, model, parts, ledger)
}

/// [`write_manifest`] without the check for other jobs.
pub(crate) fn put_manifest(
    storage: &dyn Storage,
    id: CheckpointId,
    model: &ModelSpec,
    parts: Vec<CheckpointPart>,
    ledger: Vec<u8>,
) -> Result<Manifest, CheckpointError> {
    let mut versions: Vec<_> = parts.iter().flat_map(|part| part.versions.iter().copied()).collect();
    versions.sort_by_key(|version| version.partition);
    for partition in PartitionId::all() {
        let files = versions.iter().filter(|version| version.partition == partition).count();
        if files != 1 {
            return Err(CheckpointError::Partition { id, partition, files });
        }
    }
    let files = parts.into_iter().flat_map(|part| part.files).collect();
    let manifest = Manifest::new(id, model.clone(), versions, files, ledger);
    put(storage, id, super::MANIFEST, &manifest.to_bytes())?;
    Ok(manifest)
}

fn put(storage: &dyn Storage, id: CheckpointId, name: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
    let path = format!("{}/{name}", id.directory());
    // In small chunks, so that the storage can report progress.
    let mut write = |file: &mut dyn Write| bytes.chunks(CHECKSUM_EVERY).try_for_each(|piece| file.write_all(piece));
    storage.put(&path, &mut write).map_err(CheckpointError::storage("write", &path))
}

/// Writes partitions one after the other. Dropping it ends all open exports.
struct PartitionWriter<'a> {
    hosted: &'a HostedPartitions,
    exports: Vec<PartitionExport>,
    remaining: Vec<PartitionId>,
    versions: Vec<PartitionVersion>,
    pace: Pace,
    /// Start of the current burst, and the bytes written in it.
    burst: (Instant, usize),
}

impl<'a> PartitionWriter<'a> {
    fn new(hosted: &'a HostedPartitions, cut: CheckpointCut) -> Self {
        let (exports, remaining) = match cut {
            CheckpointCut::PerPartition => (Vec::new(), hosted.partition_ids()),
            CheckpointCut::PerPartitionOf(partitions) => (Vec::new(), partitions),
            CheckpointCut::Consistent(exports) => (exports, Vec::new()),
        };
        // Popped from the end.
        let (exports, remaining) = (exports.into_iter().rev().collect(), remaining.into_iter().rev().collect());
        let (pace, burst) = (Pace::new(hosted, MAX_PAUSE), (Instant::now(), 0));
        Self { hosted, exports, remaining, versions: Vec::new(), pace, burst }
    }

    fn write_tables(
        &mut self,
        storage: &dyn Storage,
        id: CheckpointId,
        name: &str,
        model: &ModelSpec,
        slices: &mut Vec<SliceValues>,
    ) -> Result<FileEntry, CheckpointError> {
        let path = format!("{}/{name}", id.directory());
        let (mut written, mut lost) = (None, None);
        let stored = storage.put(&path, &mut |file| match self.write_all(file, model, slices) {
            Ok(size_and_checksums) => {
                written = Some(size_and_checksums);
                Ok(())
            }
            Err(WriteError::Storage(error)) => Err(error),
            Err(WriteError::Snapshot(why)) => {
                lost = Some(why);
                Err(io::Error::other(why))
            }
        });
        if let Some(lost) = lost {
            return Err(lost.into());
        }
        stored.map_err(CheckpointError::storage("write", &path))?;
        let (bytes, checksums) = written.unwrap_or_default();
        let partitions = self.versions.iter().map(|version| version.partition).collect();
        Ok(FileEntry { name: name.to_owned(), contents: Contents::Tables, partitions, bytes, checksums })
    }

    fn write_all(
        &mut self,
        file: &mut dyn Write,
        model: &ModelSpec,
        slices: &mut Vec<SliceValues>,
    ) -> Result<(u64, Vec<u32>), WriteError> {
        let mut writer = TableFileWriter::new(file, model)?;
        while let Some(mut export) = self.next() {
            let written = self.write_one(&mut writer, &mut export, slices);
            // If the partition was removed meanwhile, its snapshot is gone too.
            let _ = self.hosted.with(export.partition(), |partition| partition.end_export(&export));
            written?;
            let (partition, version) = (export.partition(), export.version());
            self.versions.push(PartitionVersion { partition, version });
            self.pause_after(BURST_BYTES);
        }
        Ok(writer.finish()?)
    }

    fn write_one(
        &mut self,
        writer: &mut TableFileWriter<&mut dyn Write>,
        export: &mut PartitionExport,
        slices: &mut Vec<SliceValues>,
    ) -> Result<(), WriteError> {
        let id = export.partition();
        writer.begin(id);
        loop {
            self.pause_after(LONG_BURST_BYTES);
            let piece = self.hosted.with(id, |partition| partition.next_piece(export));
            let Some(piece) = piece.map_err(|_| WriteError::Snapshot(SnapshotLost::Unknown))?? else { return Ok(()) };
            match piece.0 {
                PieceBody::Slice { slice, values, .. } => {
                    self.burst.1 += size_of_val(values.as_slice());
                    slices.push(SliceValues { slice, values });
                }
                PieceBody::WaitingRows { .. } | PieceBody::WaitingSlice { .. } => {}
                PieceBody::Rows { ref words, .. } => {
                    self.burst.1 += size_of_val(words.as_slice());
                    writer.add(&piece)?;
                }
                PieceBody::Head(_) | PieceBody::End(_) => writer.add(&piece)?,
            }
        }
    }

    /// Pauses if at least `bytes` were written since the last pause.
    fn pause_after(&mut self, bytes: usize) {
        if self.burst.1 >= bytes {
            thread::sleep(self.pace.pause_after(self.burst.0.elapsed(), self.hosted));
            self.burst = (Instant::now(), 0);
        }
    }

    fn next(&mut self) -> Option<PartitionExport> {
        if let Some(export) = self.exports.pop() {
            return Some(export);
        }
        // At most the partition itself is preserved, so the budget is unlimited.
        let (snapshot, budget) = (self.hosted.next_snapshot(), Budget::new(usize::MAX));
        let id = self.remaining.pop()?;
        self.hosted.with(id, |partition| partition.start_export(snapshot, budget)).ok().or_else(|| self.next())
    }
}

impl Drop for PartitionWriter<'_> {
    fn drop(&mut self) {
        for export in &self.exports {
            let _ = self.hosted.with(export.partition(), |partition| partition.end_export(export));
        }
    }
}

/// The reason why writing stopped.
enum WriteError {
    Storage(io::Error),
    Snapshot(SnapshotLost),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<SnapshotLost> for WriteError {
    fn from(lost: SnapshotLost) -> Self {
        Self::Snapshot(lost)
    }
}
