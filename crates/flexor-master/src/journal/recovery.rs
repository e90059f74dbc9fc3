//! Takes over a state folder: claims the next generation, reads the last segment, and begins its own.
//!
//! Only [`Recovery::begin`] makes the takeover final. A process that fails earlier removes its claim and leaves the
//! folder as it was.

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

/// More bytes than any header has.
const HEADER_BYTES: u64 = 64 << 10;

/// The content of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The generation of this process. Keep it private until [`Recovery::begin`].
    pub generation: Generation,
    /// The state before `facts`; `None` in a folder where no master ever began.
    pub snapshot: Option<Vec<u8>>,
    /// The facts since the snapshot, in order.
    pub facts: Vec<Vec<u8>>,
    /// The unreadable tail, if there is one.
    pub cut: Option<Cut>,
}

/// The unreadable tail of a segment; after a crash, the write in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    pub file: PathBuf,
    /// The start of the first bad record.
    pub offset: u64,
    /// From there to the end of the file.
    pub bytes: u64,
    /// Valid records follow the bad one, after a power cut or on a damaged disk. They were not read.
    pub records_follow: bool,
}

/// A claimed folder and its content.
#[derive(Debug)]
pub struct Recovery {
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
        // Checked before anything is changed: the folder of another job stays as it is.
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

    /// Makes the takeover final. When this returns, `snapshot` is durable, older segments are gone, and every older
    /// master ends at its next commit. Blocks for about one fsync.
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

/// A claimed generation; removed on drop unless it is kept.
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

/// Refuses a segment of another job or of a later format. A segment without a valid header is judged when it is read.
fn check_owner(path: &Path, job: &JobUid) -> Result<(), JournalError> {
    let mut start = Vec::new();
    let file = match File::open(path) {
        // Another master took over and removed the file after the folder was listed.
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

/// The newest segment below the claim with a complete snapshot. A segment without one held nothing that was
/// acknowledged.
fn read_older(claim: &Claim, job: &JobUid) -> Result<Recovered, JournalError> {
    let Claim { folder, generation, .. } = claim;
    let older = folder.generations()?.into_iter().rev().filter(|older| older < generation);
    for path in older.map(|older| folder.segment(older)) {
        let bytes = match fs::read(&path) {
            // Another master removed its claim. A master that removed more has superseded this one, which `begin`
            // detects.
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
