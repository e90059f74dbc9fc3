//! Reading a checkpoint: any partitions of it, whoever wrote them.

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

use super::dense_file::DenseFile;
use super::manifest::{Contents, FileEntry, Manifest};
use super::storage::Storage;
use super::summing::{CHECKSUM_EVERY, sums_of};
use super::table_file::{TableFile, TableFileError};
use super::{CheckpointError, CheckpointId};
use crate::layout::{Layout, SliceId};
use crate::partition::{Arriving, Partition};
use crate::piece::{Part, Piece, SliceHead};
use crate::placement::PartitionId;

/// How much of a file is in memory while it is compared with its checksums, which are for a whole number of MiB.
pub(super) const COMPARED_AT_ONCE: usize = 4 * CHECKSUM_EVERY;

/// A checkpoint whose manifest was read.
pub struct Checkpoint<'a> {
    storage: &'a dyn Storage,
    manifest: Manifest,
}

impl<'a> Checkpoint<'a> {
    /// Reads the manifest of a checkpoint.
    pub fn open(storage: &'a dyn Storage, id: CheckpointId) -> Result<Self, CheckpointError> {
        let name = id.manifest();
        let read = || storage.read(&name, 0..storage.size(&name)?);
        let bytes = read().map_err(CheckpointError::storage("read", &name))?;
        let manifest = Manifest::from_bytes(&bytes).map_err(|error| in_folder(id, error))?;
        match manifest.id == id {
            true => Ok(Self { storage, manifest }),
            false => Err(CheckpointError::damaged(&name, 0, format!("it is the manifest of {}", manifest.id))),
        }
    }

    /// What the checkpoint is of.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads partitions; each is whole, or there is an error.
    pub fn restore(&self, layout: &Arc<Layout>, partitions: &[PartitionId]) -> Result<Vec<Partition>, CheckpointError> {
        if layout.fingerprint() != self.manifest.fingerprint {
            let why = layout.spec().differences(&self.manifest.model, "the checkpoint").unwrap_or_default();
            return Err(CheckpointError::OtherModel { id: self.manifest.id, why });
        }
        for partition in partitions {
            let has = |entry: &&FileEntry| entry.contents == Contents::Tables && entry.partitions.contains(partition);
            let files = self.manifest.files.iter().filter(has).count();
            if files != 1 {
                return Err(CheckpointError::Partition { id: self.manifest.id, partition: *partition, files });
            }
        }
        let mut restored = Vec::with_capacity(partitions.len());
        for entry in self.of(Contents::Tables) {
            let here: Vec<_> = partitions.iter().filter(|partition| entry.partitions.contains(partition)).collect();
            if !here.is_empty() {
                let dense = self.dense_beside(entry)?;
                let dense = dense.as_ref().map(|(path, bytes)| Dense::open(path, bytes)).transpose()?;
                let mut file = Rows::open(self, entry)?;
                for partition in here {
                    restored.push(file.partition(layout, *partition, dense.as_ref())?);
                }
            }
        }
        restored.sort_by_key(Partition::id);
        Ok(restored)
    }

    /// Reads every byte of every file and compares checksums. A little at a time: the files of a model that is spread over
    /// many servers are larger than the memory of any one of them.
    pub fn verify(&self) -> Result<(), CheckpointError> {
        self.manifest.files.iter().try_for_each(|entry| self.compare(entry, |_| {}))
    }

    pub(super) fn of(&self, contents: Contents) -> impl Iterator<Item = &FileEntry> {
        self.manifest.files.iter().filter(move |entry| entry.contents == contents)
    }

    /// The bytes of a file, compared with its checksums. For files whose format is read as a whole.
    pub(super) fn whole(&self, entry: &FileEntry) -> Result<Vec<u8>, CheckpointError> {
        let mut whole = Vec::new();
        self.compare(entry, |bytes| {
            // It has as many bytes as the manifest says, or there is nothing to take.
            whole.reserve_exact(entry.bytes as usize - whole.len());
            whole.extend_from_slice(bytes);
        })?;
        Ok(whole)
    }

    /// Reads a file from its beginning to its end; what is as it was written is taken.
    fn compare(&self, entry: &FileEntry, mut take: impl FnMut(&[u8])) -> Result<(), CheckpointError> {
        self.check_size(entry)?;
        let damaged = |place: u64| {
            let why = format!("somewhere in the {CHECKSUM_EVERY} bytes from there it is not what was written");
            CheckpointError::damaged(&self.path(entry), place, why)
        };
        if entry.checksums.len() as u64 != entry.bytes.div_ceil(CHECKSUM_EVERY as u64) {
            return Err(damaged(0));
        }
        let parts = (0..entry.bytes).step_by(COMPARED_AT_ONCE);
        for (start, wanted) in parts.zip(entry.checksums.chunks(COMPARED_AT_ONCE / CHECKSUM_EVERY)) {
            let bytes = self.read(entry, start..entry.bytes.min(start + COMPARED_AT_ONCE as u64))?;
            if let Some(place) = sums_of(&bytes).iter().zip(wanted).position(|(found, wanted)| found != wanted) {
                return Err(damaged(start + (place * CHECKSUM_EVERY) as u64));
            }
            take(&bytes);
        }
        Ok(())
    }

    /// The dense file that was written together with a table file: both have the same partitions.
    fn dense_beside(&self, tables: &FileEntry) -> Result<Option<(String, Vec<u8>)>, CheckpointError> {
        match self.of(Contents::Dense).find(|entry| entry.partitions == tables.partitions) {
            Some(entry) => Ok(Some((self.path(entry), self.whole(entry)?))),
            None => Ok(None),
        }
    }

    fn check_size(&self, entry: &FileEntry) -> Result<(), CheckpointError> {
        let path = self.path(entry);
        let size = self.storage.size(&path).map_err(|error| match error.kind() {
            // Its manifest has just been read there.
            ErrorKind::NotFound => CheckpointError::damaged(&path, 0, "it is not there"),
            _ => CheckpointError::storage("read", &path)(error),
        })?;
        match size == entry.bytes {
            true => Ok(()),
            false => {
                let why = format!("it has {size} bytes and not {}", entry.bytes);
                Err(CheckpointError::damaged(&path, size.min(entry.bytes), why))
            }
        }
    }

    fn read(&self, entry: &FileEntry, range: Range<u64>) -> Result<Vec<u8>, CheckpointError> {
        let path = self.path(entry);
        self.storage.read(&path, range).map_err(CheckpointError::storage("read", &path))
    }

    fn path(&self, entry: &FileEntry) -> String {
        format!("{}/{}", self.manifest.id.folder(), entry.name)
    }
}

/// A table file that partitions are read from.
pub(super) struct Rows<'a> {
    checkpoint: &'a Checkpoint<'a>,
    path: String,
    file: TableFile,
}

impl<'a> Rows<'a> {
    pub(super) fn open(checkpoint: &'a Checkpoint<'a>, entry: &FileEntry) -> Result<Self, CheckpointError> {
        checkpoint.check_size(entry)?;
        let path = checkpoint.path(entry);
        let file = TableFile::open(entry.bytes, &mut |range| checkpoint.storage.read(&path, range));
        let file = file.map_err(|error| of_file(&path, error))?;
        match file.fingerprint() == checkpoint.manifest.fingerprint {
            true => Ok(Self { checkpoint, path, file }),
            false => Err(CheckpointError::damaged(&path, 0, "it is of another model than the manifest says")),
        }
    }

    pub(super) fn pieces(&mut self, partition: PartitionId) -> Result<Vec<Piece>, CheckpointError> {
        let storage = self.checkpoint.storage;
        let pieces = self.file.pieces(partition, &mut |range| storage.read(&self.path, range));
        pieces.map_err(|error| of_file(&self.path, error))
    }

    fn partition(
        &mut self,
        layout: &Arc<Layout>,
        id: PartitionId,
        dense: Option<&Dense<'_>>,
    ) -> Result<Partition, CheckpointError> {
        let pieces = self.pieces(id)?;
        let does_not_fit = |error| CheckpointError::Arrival { file: self.path.clone(), error };
        let mut arriving = Arriving::new(layout, id);
        for piece in pieces {
            let is_head = matches!(piece.0, Part::Head(_));
            arriving.take(piece).map_err(does_not_fit)?;
            for slice in arriving.slices().iter().copied().filter(|_| is_head).collect::<Vec<_>>() {
                let dense = dense.ok_or_else(|| missing(&self.path, slice.slice))?;
                arriving.take(dense.piece(layout, slice)?).map_err(does_not_fit)?;
            }
        }
        arriving.forget_waiting();
        arriving.finish().map_err(does_not_fit)
    }
}

/// A dense file that slices are taken from.
struct Dense<'a> {
    path: &'a str,
    file: DenseFile<'a>,
}

impl<'a> Dense<'a> {
    fn open(path: &'a str, bytes: &'a [u8]) -> Result<Self, CheckpointError> {
        let file = DenseFile::from_bytes(bytes).map_err(|error| CheckpointError::damaged(path, 0, error))?;
        Ok(Self { path, file })
    }

    fn piece(&self, layout: &Layout, head: SliceHead) -> Result<Piece, CheckpointError> {
        let SliceHead { slice, steps, version } = head;
        let values = self.file.values(layout, slice).ok_or_else(|| missing(self.path, slice))?;
        Ok(Piece(Part::Slice { slice, steps, version, values }))
    }
}

fn missing(path: &str, slice: SliceId) -> CheckpointError {
    CheckpointError::damaged(path, 0, format!("the values of {slice} are missing, or not whole"))
}

fn of_file(path: &str, error: TableFileError) -> CheckpointError {
    match error {
        TableFileError::Read(error) => CheckpointError::storage("read", path)(error),
        TableFileError::Damaged { offset, why } => CheckpointError::damaged(path, offset, why),
    }
}

fn in_folder(id: CheckpointId, error: CheckpointError) -> CheckpointError {
    match error {
        CheckpointError::Damaged { file, offset, why } => {
            CheckpointError::Damaged { file: format!("{}/{file}", id.folder()), offset, why }
        }
        other => other,
    }
}
