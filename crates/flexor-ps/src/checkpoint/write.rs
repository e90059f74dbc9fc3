//! Writing a checkpoint: each server its part, then the manifest.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::dense_file::{self, SliceValues};
use super::manifest::{Contents, FileEntry, Manifest, PartitionVersion};
use super::storage::Storage;
use super::summing::{CHECKSUM_EVERY, sums_of};
use super::table_file::TableFileWriter;
use super::whose::refuse_later;
use super::{CheckpointError, CheckpointId};
use crate::hosted::Hosted;
use crate::pace::Pace;
use crate::partition::PartitionCopy;
use crate::piece::Part as PiecePart;
use crate::placement::PartitionId;
use crate::snapshot::{Budget, SnapshotLost};
use crate::spec::ModelSpec;

/// After so many bytes it rests, when the partition is written that it has begun: what training changes of a partition until
/// that is written has to be put aside first.
const TURN: usize = 4 << 20;
/// In a partition that is this much larger it rests nevertheless.
const LONG_TURN: usize = 16 << 20;
/// A turn that was long for want of a disk or a processor makes for no longer rest.
const LONGEST_REST: Duration = Duration::from_millis(40);

/// What a server has written, for the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// How many updates its partitions had.
    pub versions: Vec<PartitionVersion>,
    /// Its files.
    pub files: Vec<FileEntry>,
}

/// Of which moment the partitions are written.
#[derive(Debug)]
pub enum Moment {
    /// Each of its own, one after the other: what training changes meanwhile is at most one partition. For asynchronous
    /// training, where partitions are at different versions anyway.
    OneByOne,
    /// The same, of these partitions only.
    Of(Vec<PartitionId>),
    /// All of one moment, which was held with [`Moment::hold`].
    Together(Vec<PartitionCopy>),
}

impl Moment {
    /// Holds the moment: these partitions of the server as they are, without those that are not here. What training changes
    /// until they are written may be at most `budget` bytes. The caller sees to it that no update runs meanwhile where
    /// that matters.
    pub fn hold(hosted: &Hosted, partitions: &[PartitionId], budget: usize) -> Self {
        let (snapshot, budget) = (hosted.next_snapshot(), Budget::new(budget));
        let begin =
            |id: &PartitionId| hosted.with(*id, |partition| partition.begin_copy(snapshot, Arc::clone(&budget))).ok();
        Self::Together(partitions.iter().filter_map(begin).collect())
    }

    /// At which versions the partitions of a held moment are.
    pub fn versions(&self) -> Vec<u64> {
        match self {
            Self::Together(copies) => copies.iter().map(PartitionCopy::version).collect(),
            Self::OneByOne | Self::Of(_) => Vec::new(),
        }
    }

    /// Lets a held moment go that is not going to be written.
    pub fn release(self, hosted: &Hosted) {
        drop(Copies::of(hosted, self));
    }
}

/// Writes a server's partitions into a checkpoint. `server` names it in the files, such as `0-of-3`. Numbers go up from
/// one checkpoint of a job to the next; where there is one of another job, nothing is written.
pub fn write_part(
    storage: &dyn Storage,
    id: CheckpointId,
    server: &str,
    hosted: &Hosted,
    moment: Moment,
) -> Result<Part, CheckpointError> {
    if let Err(error) = hosted.with_acquaintance(|folder| folder.look(storage, id)) {
        moment.release(hosted);
        return Err(error);
    }
    let part = put_part(storage, id, server, hosted, moment)?;
    hosted.with_acquaintance(|folder| folder.wrote(id, &part));
    Ok(part)
}

/// The same, whatever lies there.
pub(crate) fn put_part(
    storage: &dyn Storage,
    id: CheckpointId,
    server: &str,
    hosted: &Hosted,
    moment: Moment,
) -> Result<Part, CheckpointError> {
    let layout = hosted.layout();
    let mut copies = Copies::of(hosted, moment);
    let mut slices = Vec::new();
    let tables = format!("tables-{server}.flx");
    let entry = copies.write_tables(storage, id, &tables, layout.spec(), &mut slices)?;
    let mut part = Part { versions: std::mem::take(&mut copies.versions), files: vec![entry] };
    if !slices.is_empty() {
        slices.sort_by_key(|slice| slice.slice);
        let name = format!("dense-{server}.safetensors");
        let bytes = dense_file::to_bytes(&layout, &slices)
            .map_err(|error| CheckpointError::storage("write", &name)(io::Error::other(error)))?;
        put(storage, id, &name, &bytes)?;
        let partitions = part.files[0].partitions.clone();
        let (contents, checksums) = (Contents::Dense, sums_of(&bytes));
        part.files.push(FileEntry { name, contents, partitions, bytes: bytes.len() as u64, checksums });
    }
    Ok(part)
}

/// Writes the manifest, which makes the parts a checkpoint. `ledger` is where the data stood when it was begun. Not where
/// another job has come to this number meanwhile.
pub fn write_manifest(
    storage: &dyn Storage,
    id: CheckpointId,
    model: &ModelSpec,
    parts: Vec<Part>,
    ledger: Vec<u8>,
) -> Result<Manifest, CheckpointError> {
    refuse_later(storage, id)?;
    put_manifest(storage, id, model, parts, ledger)
}

/// The same, whatever lies there.
pub(crate) fn put_manifest(
    storage: &dyn Storage,
    id: CheckpointId,
    model: &ModelSpec,
    parts: Vec<Part>,
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
    let path = format!("{}/{name}", id.folder());
    // Piece by piece, so that it is seen to get on.
    let mut write = |file: &mut dyn Write| bytes.chunks(CHECKSUM_EVERY).try_for_each(|piece| file.write_all(piece));
    storage.put(&path, &mut write).map_err(CheckpointError::storage("write", &path))
}

/// The partitions still to be written. Copies that were begun are ended, whatever happens.
struct Copies<'a> {
    hosted: &'a Hosted,
    begun: Vec<PartitionCopy>,
    to_begin: Vec<PartitionId>,
    versions: Vec<PartitionVersion>,
    pace: Pace,
    /// When the turn began, and how many bytes were written in it.
    turn: (Instant, usize),
}

impl<'a> Copies<'a> {
    fn of(hosted: &'a Hosted, moment: Moment) -> Self {
        let (begun, to_begin) = match moment {
            Moment::OneByOne => (Vec::new(), hosted.owned()),
            Moment::Of(partitions) => (Vec::new(), partitions),
            Moment::Together(begun) => (begun, Vec::new()),
        };
        // Taken from the end.
        let (begun, to_begin) = (begun.into_iter().rev().collect(), to_begin.into_iter().rev().collect());
        let (pace, turn) = (Pace::new(hosted, LONGEST_REST), (Instant::now(), 0));
        Self { hosted, begun, to_begin, versions: Vec::new(), pace, turn }
    }

    fn write_tables(
        &mut self,
        storage: &dyn Storage,
        id: CheckpointId,
        name: &str,
        model: &ModelSpec,
        slices: &mut Vec<SliceValues>,
    ) -> Result<FileEntry, CheckpointError> {
        let path = format!("{}/{name}", id.folder());
        let (mut written, mut lost) = (None, None);
        let stored = storage.put(&path, &mut |file| match self.write_all(file, model, slices) {
            Ok(size_and_sums) => {
                written = Some(size_and_sums);
                Ok(())
            }
            Err(Interrupted::Storage(error)) => Err(error),
            Err(Interrupted::Snapshot(why)) => {
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
    ) -> Result<(u64, Vec<u32>), Interrupted> {
        let mut writer = TableFileWriter::new(file, model)?;
        while let Some(mut copy) = self.next() {
            let written = self.write_one(&mut writer, &mut copy, slices);
            // A partition that has gone meanwhile has taken its snapshot with it.
            let _ = self.hosted.with(copy.partition(), |partition| partition.end_copy(&copy));
            written?;
            let (partition, version) = (copy.partition(), copy.version());
            self.versions.push(PartitionVersion { partition, version });
            self.rest_after(TURN);
        }
        Ok(writer.finish()?)
    }

    fn write_one(
        &mut self,
        writer: &mut TableFileWriter<&mut dyn Write>,
        copy: &mut PartitionCopy,
        slices: &mut Vec<SliceValues>,
    ) -> Result<(), Interrupted> {
        let id = copy.partition();
        writer.begin(id);
        loop {
            self.rest_after(LONG_TURN);
            let piece = self.hosted.with(id, |partition| partition.next_piece(copy));
            let Some(piece) = piece.map_err(|_| Interrupted::Snapshot(SnapshotLost::Unknown))?? else { return Ok(()) };
            match piece.0 {
                PiecePart::Slice { slice, values, .. } => {
                    self.turn.1 += size_of_val(values.as_slice());
                    slices.push(SliceValues { slice, values });
                }
                PiecePart::WaitingRows { .. } | PiecePart::WaitingSlice { .. } => {}
                PiecePart::Rows { ref words, .. } => {
                    self.turn.1 += size_of_val(words.as_slice());
                    writer.add(&piece)?;
                }
                PiecePart::Head(_) | PiecePart::End(_) => writer.add(&piece)?,
            }
        }
    }

    /// Lets training go first for a while, if so many bytes were written since it last did.
    fn rest_after(&mut self, bytes: usize) {
        if self.turn.1 >= bytes {
            thread::sleep(self.pace.rest_after(self.turn.0.elapsed(), self.hosted));
            self.turn = (Instant::now(), 0);
        }
    }

    fn next(&mut self) -> Option<PartitionCopy> {
        if let Some(begun) = self.begun.pop() {
            return Some(begun);
        }
        // What is put aside of one partition while it is written is at most the partition itself.
        let (snapshot, budget) = (self.hosted.next_snapshot(), Budget::new(usize::MAX));
        let id = self.to_begin.pop()?;
        self.hosted.with(id, |partition| partition.begin_copy(snapshot, budget)).ok().or_else(|| self.next())
    }
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        for copy in &self.begun {
            let _ = self.hosted.with(copy.partition(), |partition| partition.end_copy(copy));
        }
    }
}

/// Why writing stopped.
enum Interrupted {
    Storage(io::Error),
    Snapshot(SnapshotLost),
}

impl From<io::Error> for Interrupted {
    fn from(error: io::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<SnapshotLost> for Interrupted {
    fn from(lost: SnapshotLost) -> Self {
        Self::Snapshot(lost)
    }
}
