//! Taking over a state folder: claim the next generation, read what the last one left, begin a segment of one's own.
//!
//! Only [`Recovery::begin`] makes the takeover final. A process that fails before leaves the folder as it was: its
//! claim is removed again, and nobody has seen its generation.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flexor_model::{Generation, JobUid};

use super::committer::{self, Committer};
use super::folder::{self, StateFolder};
use super::record::{self, Kind};
use super::segment::{FORMAT, Header, Segment, Unreadable};
use super::segment_file::{Disk, SegmentFile};
use super::tail::Tail;
use super::{Journal, JournalError};
use crate::clock::Clock;
use crate::faults::Faults;

/// More than any header has.
const HEADER_BYTES: u64 = 64 << 10;

/// What the journal knew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The generation of the process that reads this. Not to be told to others before [`Recovery::begin`].
    pub generation: Generation,
    /// The state that the facts come on top of; none in a folder where no master ever began.
    pub snapshot: Option<Vec<u8>>,
    /// What was decided since, in order.
    pub facts: Vec<Vec<u8>>,
    /// What could not be read behind the last of them.
    pub cut: Option<Cut>,
}

/// The unreadable end of a segment: after a crash, what was being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The segment.
    pub file: PathBuf,
    /// Where the first bad record begins.
    pub offset: u64,
    /// From there to the end of the file.
    pub bytes: u64,
    /// Good records stand behind the bad one: a power cut, or a damaged disk. They were not read.
    pub records_follow: bool,
}

/// A folder that was taken over, and what it held.
#[derive(Debug)]
pub struct Recovery {
    /// What was read.
    pub recovered: Recovered,
    claim: Claim,
    header: Header,
    file: SegmentFile,
    disk: Disk,
    clock: Clock,
}

impl Recovery {
    pub(super) fn open(path: &Path, job: &JobUid, faults: &Faults, clock: &Clock) -> Result<Self, JournalError> {
        let folder = StateFolder::at(path)?;
        // Looked at before anything is changed: a folder that is not ours stays as it is.
        for generation in folder.generations()? {
            check_owner(&folder.segment(generation), job)?;
        }
        let (claim, file) = Claim::stake(folder)?;
        let disk = Disk::new(faults);
        let file = disk.file(file);
        let header = Header { generation: claim.generation, job: job.clone() };
        let own = claim.folder.segment(claim.generation);
        file.write_at(&header.to_bytes(), 0).and_then(|()| file.sync()).map_err(JournalError::full(&own))?;
        claim.folder.sync()?;
        let recovered = read_older(&claim, job)?;
        Ok(Self { recovered, claim, header, file, disk, clock: clock.clone() })
    }

    /// Makes the takeover final: once this returns, `snapshot` is durable, what was there before it is gone, and every
    /// older master ends at its next commit. Blocks for about one fsync.
    ///
    /// `snapshot` is the state after everything in [`Recovered`].
    pub fn begin(self, snapshot: &[u8]) -> Result<Journal, JournalError> {
        let Self { mut claim, header, file, disk, clock, .. } = self;
        if snapshot.len() > record::MAX_PAYLOAD {
            return Err(JournalError::TooLarge { bytes: snapshot.len() });
        }
        let own = claim.folder.segment(claim.generation);
        let header_end = header.to_bytes().len() as u64;
        let mut bytes = Vec::new();
        record::put(&mut bytes, Kind::Snapshot, snapshot);
        file.write_at(&bytes, header_end).and_then(|()| file.sync()).map_err(JournalError::full(&own))?;
        claim.folder.fence(claim.generation)?;
        claim.kept = true;
        claim.folder.remove_older_than(claim.generation);
        let tail = Tail::new(file, header_end + bytes.len() as u64);
        let committer = Arc::new(Committer::new(claim.folder.clone(), header, disk, clock, tail));
        let thread = committer::spawn(&committer).map_err(JournalError::unusable("start a thread for", &own))?;
        Ok(Journal::on_disk(committer, thread))
    }
}

/// A generation that is ours; given back unless it is kept.
#[derive(Debug)]
struct Claim {
    folder: StateFolder,
    generation: Generation,
    kept: bool,
}

impl Claim {
    fn stake(folder: StateFolder) -> Result<(Self, File), JournalError> {
        let (generation, file) = folder.claim()?;
        Ok((Self { folder, generation, kept: false }, file))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.kept {
            folder::remove(&self.folder.segment(self.generation));
        }
    }
}

/// Refuses a segment of another job or of a later format. One without a good header is judged when it is read.
fn check_owner(path: &Path, job: &JobUid) -> Result<(), JournalError> {
    let mut start = Vec::new();
    let file = match File::open(path) {
        // Another master took over and cleaned up since the folder was listed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened,
    };
    let read = file.and_then(|file| file.take(HEADER_BYTES).read_to_end(&mut start));
    read.map_err(JournalError::unusable("read", path))?;
    match Header::take(&start) {
        Some((format, _, _)) if format > FORMAT => Err(newer_format(path, format)),
        Some((_, header, _)) => check_job(path, &header, job),
        None => Ok(()),
    }
}

fn check_job(path: &Path, header: &Header, job: &JobUid) -> Result<(), JournalError> {
    if header.job == *job {
        return Ok(());
    }
    Err(JournalError::WrongJob { path: path.to_owned(), found: header.job.clone(), wanted: job.clone() })
}

fn newer_format(path: &Path, found: u32) -> JournalError {
    JournalError::NewerFormat { path: path.to_owned(), found, known: FORMAT }
}

/// The newest segment below the claim that holds a complete snapshot. One without held nothing that anybody was told.
fn read_older(claim: &Claim, job: &JobUid) -> Result<Recovered, JournalError> {
    let Claim { folder, generation, .. } = claim;
    let older = folder.generations()?.into_iter().rev().filter(|older| older < generation);
    for path in older.map(|older| folder.segment(older)) {
        let bytes = match fs::read(&path) {
            // Another master gave its claim back. One that removed more than that has superseded us, and then `begin`
            // will say so.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read.map_err(JournalError::unusable("read", &path))?,
        };
        let segment = match Segment::read(&bytes) {
            Ok(segment) => segment,
            Err(Unreadable::Unfinished) => continue,
            Err(Unreadable::NewerFormat(found)) => return Err(newer_format(&path, found)),
            Err(Unreadable::Damaged { offset }) => return Err(JournalError::Damaged { path, offset }),
        };
        check_job(&path, &segment.header, job)?;
        if segment.snapshot.is_some() {
            let cut = segment.bad_tail.map(|tail| Cut {
                file: path,
                offset: tail.offset,
                bytes: tail.bytes,
                records_follow: tail.records_follow,
            });
            return Ok(Recovered { generation: *generation, snapshot: segment.snapshot, facts: segment.facts, cut });
        }
    }
    Ok(Recovered { generation: *generation, snapshot: None, facts: Vec::new(), cut: None })
}
