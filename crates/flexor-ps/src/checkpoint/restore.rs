//! Reading a checkpoint: any partitions, independent of which server wrote them.

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

use super::checksums::{CHECKSUM_EVERY, checksums_of};
use super::dense_file::DenseFile;
use super::manifest::{Contents, FileEntry, Manifest};
use super::storage::Storage;
use super::table_file::{TableFile, TableFileError};
use super::{CheckpointError, CheckpointId};
use crate::layout::{Layout, SliceId};
use crate::partition::{Partition, PartitionImport};
use crate::piece::{Piece, PieceBody, SliceHead};
use crate::placement::PartitionId;

/// Bytes of a file in memory during verification: a whole number of checksummed ranges.
pub(super) const VERIFY_BYTES: usize = 4 * CHECKSUM_EVERY;

/// A checkpoint whose manifest was read and verified.
pub struct Checkpoint<'a> {
    storage: &'a dyn Storage,
    manifest: Manifest,
}

impl<'a> Checkpoint<'a> {
    pub fn open(storage: &'a dyn Storage, id: CheckpointId) -> Result<Self, CheckpointError> {
        let name = id.manifest();
        let read = || storage.read(&name, 0..storage.size(&name)?);
        let bytes = read().map_err(CheckpointError::storage("read", &name))?;
        let manifest = Manifest::from_bytes(&bytes).map_err(|error| in_directory(id, error))?;
        match manifest.id == id {
            true => Ok(Self { storage, manifest }),
            false => {
                Err(CheckpointError::damaged(&name, 0, format!("it is the manifest of checkpoint {}", manifest.id)))
            }
        }
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Restores partitions. Each is complete, or the call fails.
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
            let wanted: Vec<_> = partitions.iter().filter(|partition| entry.partitions.contains(partition)).collect();
            if !wanted.is_empty() {
                let dense = self.dense_beside(entry)?;
                let dense = dense.as_ref().map(|(path, bytes)| DenseFileSource::open(path, bytes)).transpose()?;
                let mut file = TableFileSource::open(self, entry)?;
                for partition in wanted {
                    restored.push(file.partition(layout, *partition, dense.as_ref())?);
                }
            }
        }
        restored.sort_by_key(Partition::id);
        Ok(restored)
    }

    /// Verifies the checksums of every file. It reads a few MiB at a time, because the files of all servers together
    /// may exceed the memory of one server.
    pub fn verify(&self) -> Result<(), CheckpointError> {
        self.manifest.files.iter().try_for_each(|entry| self.compare(entry, |_| {}))
    }

    pub(super) fn of(&self, contents: Contents) -> impl Iterator<Item = &FileEntry> {
        self.manifest.files.iter().filter(move |entry| entry.contents == contents)
    }

    /// Reads and verifies a whole file, for formats that cannot be read in ranges.
    pub(super) fn read_verified(&self, entry: &FileEntry) -> Result<Vec<u8>, CheckpointError> {
        let mut contents = Vec::new();
        self.compare(entry, |bytes| {
            // `compare` has checked that the file has the size in the manifest.
            contents.reserve_exact(entry.bytes as usize - contents.len());
            contents.extend_from_slice(bytes);
        })?;
        Ok(contents)
    }

    /// Reads a file from start to end. Passes each verified range to `take`.
    fn compare(&self, entry: &FileEntry, mut take: impl FnMut(&[u8])) -> Result<(), CheckpointError> {
        self.check_size(entry)?;
        let damaged = |offset: u64| {
            let why = format!("the checksum of the {CHECKSUM_EVERY} bytes from there does not match");
            CheckpointError::damaged(&self.path(entry), offset, why)
        };
        if entry.checksums.len() as u64 != entry.bytes.div_ceil(CHECKSUM_EVERY as u64) {
            return Err(damaged(0));
        }
        let parts = (0..entry.bytes).step_by(VERIFY_BYTES);
        for (start, wanted) in parts.zip(entry.checksums.chunks(VERIFY_BYTES / CHECKSUM_EVERY)) {
            let bytes = self.read(entry, start..entry.bytes.min(start + VERIFY_BYTES as u64))?;
            if let Some(index) = checksums_of(&bytes).iter().zip(wanted).position(|(found, wanted)| found != wanted) {
                return Err(damaged(start + (index * CHECKSUM_EVERY) as u64));
            }
            take(&bytes);
        }
        Ok(())
    }

    /// The dense file of the server that wrote a table file: both list the same partitions.
    fn dense_beside(&self, tables: &FileEntry) -> Result<Option<(String, Vec<u8>)>, CheckpointError> {
        match self.of(Contents::Dense).find(|entry| entry.partitions == tables.partitions) {
            Some(entry) => Ok(Some((self.path(entry), self.read_verified(entry)?))),
            None => Ok(None),
        }
    }

    fn check_size(&self, entry: &FileEntry) -> Result<(), CheckpointError> {
        let path = self.path(entry);
        let size = self.storage.size(&path).map_err(|error| match error.kind() {
            // The manifest was just read from the same storage, so the file is missing, not the directory.
            ErrorKind::NotFound => CheckpointError::damaged(&path, 0, "the file is missing"),
            _ => CheckpointError::storage("read", &path)(error),
        })?;
        match size == entry.bytes {
            true => Ok(()),
            false => {
                let why = format!("the file has {size} bytes instead of {}", entry.bytes);
                Err(CheckpointError::damaged(&path, size.min(entry.bytes), why))
            }
        }
    }

    fn read(&self, entry: &FileEntry, range: Range<u64>) -> Result<Vec<u8>, CheckpointError> {
        let path = self.path(entry);
        self.storage.read(&path, range).map_err(CheckpointError::storage("read", &path))
    }

    fn path(&self, entry: &FileEntry) -> String {
        format!("{}/{}", self.manifest.id.directory(), entry.name)
    }
}

/// A table file of a checkpoint.
pub(super) struct TableFileSource<'a> {
    checkpoint: &'a Checkpoint<'a>,
    path: String,
    file: TableFile,
}

impl<'a> TableFileSource<'a> {
    pub(super) fn open(checkpoint: &'a Checkpoint<'a>, entry: &FileEntry) -> Result<Self, CheckpointError> {
        checkpoint.check_size(entry)?;
        let path = checkpoint.path(entry);
        let file = TableFile::open(entry.bytes, &mut |range| checkpoint.storage.read(&path, range));
        let file = file.map_err(|error| of_file(&path, error))?;
        match file.fingerprint() == checkpoint.manifest.fingerprint {
            true => Ok(Self { checkpoint, path, file }),
            false => Err(CheckpointError::damaged(&path, 0, "the file is of another model than the manifest")),
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
        dense: Option<&DenseFileSource<'_>>,
    ) -> Result<Partition, CheckpointError> {
        let pieces = self.pieces(id)?;
        let does_not_fit = |error| CheckpointError::Import { file: self.path.clone(), error };
        let mut import = PartitionImport::new(layout, id);
        for piece in pieces {
            let is_head = matches!(piece.0, PieceBody::Head(_));
            import.add(piece).map_err(does_not_fit)?;
            for slice in import.slices().iter().copied().filter(|_| is_head).collect::<Vec<_>>() {
                let dense = dense.ok_or_else(|| missing(&self.path, slice.slice))?;
                import.add(dense.piece(layout, slice)?).map_err(does_not_fit)?;
            }
        }
        import.drop_waiting();
        import.finish().map_err(does_not_fit)
    }
}

/// A dense file of a checkpoint.
struct DenseFileSource<'a> {
    path: &'a str,
    file: DenseFile<'a>,
}

impl<'a> DenseFileSource<'a> {
    fn open(path: &'a str, bytes: &'a [u8]) -> Result<Self, CheckpointError> {
        let file = DenseFile::from_bytes(bytes).map_err(|error| CheckpointError::damaged(path, 0, error))?;
        Ok(Self { path, file })
    }

    fn piece(&self, layout: &Layout, head: SliceHead) -> Result<Piece, CheckpointError> {
        let SliceHead { slice, steps, version } = head;
        let values = self.file.values(layout, slice).ok_or_else(|| missing(self.path, slice))?;
        Ok(Piece(PieceBody::Slice { slice, steps, version, values }))
    }
}

fn missing(path: &str, slice: SliceId) -> CheckpointError {
    CheckpointError::damaged(path, 0, format!("the values of {slice} are missing or incomplete"))
}

fn of_file(path: &str, error: TableFileError) -> CheckpointError {
    match error {
        TableFileError::Read(error) => CheckpointError::storage("read", path)(error),
        TableFileError::Damaged { offset, why } => CheckpointError::damaged(path, offset, why),
    }
}

fn in_directory(id: CheckpointId, error: CheckpointError) -> CheckpointError {
    match error {
        CheckpointError::Damaged { file, offset, why } => {
            CheckpointError::Damaged { file: format!("{}/{file}", id.directory()), offset, why }
        }
        other => other,
    }
}
