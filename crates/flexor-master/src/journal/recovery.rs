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
use super::segment::{BadTail, FORMAT, Header, Segment, Unreadable};
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

/// What a master does with a journal that has lost acknowledged facts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LossPolicy {
    /// It does not start.
    #[default]
    Refuse,
    /// It continues from what can be read, and keeps the damaged segment.
    Accept,
}

/// The part of the journal that was not read: after a crash, the write in progress; else damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The segment. [`Recovery::begin`] keeps it under [`Cut::kept_as`].
    pub file: PathBuf,
    /// The start of the first bad record.
    pub offset: u64,
    /// From there to the end of the file.
    pub bytes: u64,
    /// Acknowledged facts are lost for certain: valid records follow the bad one, or the snapshot is unreadable.
    pub is_damage: bool,
    /// No snapshot could be read, so nothing of the segment was.
    pub everything: bool,
    /// Facts that were found behind the bad record. They were not replayed.
    pub facts_behind: Vec<Vec<u8>>,
    /// The bad part may hold more than one record.
    pub may_hold_several: bool,
}

impl Cut {
    /// Where the segment is kept; none if there is no file.
    #[must_use]
    pub fn kept_as(&self) -> Option<PathBuf> {
        (!self.everything || self.bytes > 0).then(|| StateFolder::damaged_segment(&self.file))
    }
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
    pub(super) fn open(
        path: &Path,
        job: &JobUid,
        policy: LossPolicy,
        (faults, clock): (&Faults, &Clock),
    ) -> Result<Self, JournalError> {
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
        let recovered = read_older(&claim.folder, claim.generation, job, policy)?;
        Ok(Self { recovered, claim, header, file, disk, clock: clock.clone() })
    }

    /// Reads what a master of `job` would read, changes nothing, and fails where such a master would refuse to start.
    pub(super) fn check(path: &Path, job: &JobUid) -> Result<(), JournalError> {
        let Some(folder) = StateFolder::existing(path) else { return Ok(()) };
        read_older(&folder, Generation(u64::MAX), job, LossPolicy::Refuse).map(|_| ())
    }

    /// Makes the takeover final. When this returns, `snapshot` is durable, older segments are gone, and every older
    /// master ends at its next commit. Blocks for about one fsync.
    ///
    /// `snapshot` is the state after everything in [`Recovered`].
    pub fn begin(self, snapshot: &[u8]) -> Result<Journal, JournalError> {
        let Self { mut claim, header, file, disk, clock, recovered } = self;
        if snapshot.len() > record::MAX_PAYLOAD {
            return Err(JournalError::TooLarge { bytes: snapshot.len() });
        }
        let own = claim.folder.segment(claim.generation);
        let header_end = header.to_bytes().len() as u64;
        let mut bytes = Vec::new();
        record::put(&mut bytes, Kind::Snapshot, snapshot);
        file.write_at(&bytes, header_end).and_then(|()| file.sync()).map_err(JournalError::full(&own))?;
        claim.folder.fence(claim.generation)?;
        if let Some((damaged, kept)) = recovered.cut.and_then(|cut| Some((cut.file.clone(), cut.kept_as()?))) {
            fs::rename(&damaged, &kept).map_err(JournalError::unusable("keep as evidence", &damaged))?;
        }
        claim.kept = true;
        claim.folder.note_begun(claim.generation);
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

/// Reads the newest segment below the claim with a complete snapshot. A segment without one held nothing that was
/// acknowledged, unless its generation has begun.
fn read_older(
    folder: &StateFolder,
    generation: Generation,
    job: &JobUid,
    policy: LossPolicy,
) -> Result<Recovered, JournalError> {
    let begun = folder.begun()?;
    let older = folder.generations()?.into_iter().rev().filter(|older| *older < generation);
    for older in older {
        let path = folder.segment(older);
        let bytes = match fs::read(&path) {
            // Another master removed its claim. A master that removed more has superseded this one, which `begin`
            // detects.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read.map_err(JournalError::unusable("read", &path))?,
        };
        let has_begun = begun == Some(older);
        match Segment::read(&bytes) {
            Ok(Segment { header, snapshot: Some(snapshot), facts, bad_tail }) => {
                check_job(&path, &header, job)?;
                if begun.is_some_and(|begun| older < begun) {
                    break;
                }
                let cut = bad_tail.map(|tail| cut_of(path, tail));
                if let Some(Cut { file, offset, facts_behind, is_damage: true, .. }) = &cut
                    && policy == LossPolicy::Refuse
                {
                    let (path, facts_behind) = (file.clone(), facts_behind.len());
                    return Err(JournalError::Damaged { path, offset: *offset, facts_behind, everything: false });
                }
                return Ok(Recovered { generation, snapshot: Some(snapshot), facts, cut });
            }
            Ok(Segment { header, snapshot: None, .. }) => check_job(&path, &header, job)?,
            Err(Unreadable::Unfinished) => {}
            Err(Unreadable::NewerFormat(found)) => return Err(newer_format(&path, found)),
            Err(Unreadable::Damaged { offset }) => {
                return everything_lost(generation, path, (offset, bytes.len() as u64), policy);
            }
        }
        if has_begun {
            return match policy {
                LossPolicy::Refuse => Err(JournalError::Missing { path }),
                LossPolicy::Accept => everything_lost(generation, path, (0, bytes.len() as u64), policy),
            };
        }
    }
    match begun {
        None => Ok(Recovered { generation, snapshot: None, facts: Vec::new(), cut: None }),
        Some(begun) if policy == LossPolicy::Refuse => Err(JournalError::Missing { path: folder.segment(begun) }),
        Some(begun) => everything_lost(generation, folder.segment(begun), (0, 0), policy),
    }
}

fn cut_of(file: PathBuf, tail: BadTail) -> Cut {
    let BadTail { offset, bytes, records_follow: is_damage, facts_behind, may_hold_several } = tail;
    Cut { file, offset, bytes, is_damage, everything: false, facts_behind, may_hold_several }
}

/// A segment of `bytes` bytes whose snapshot cannot be read; 0 if the file is missing.
fn everything_lost(
    generation: Generation,
    path: PathBuf,
    (offset, bytes): (u64, u64),
    policy: LossPolicy,
) -> Result<Recovered, JournalError> {
    if policy == LossPolicy::Refuse {
        return Err(JournalError::Damaged { path, offset, facts_behind: 0, everything: true });
    }
    let cut = Cut {
        file: path,
        offset,
        bytes,
        is_damage: true,
        everything: true,
        facts_behind: Vec::new(),
        may_hold_several: true,
    };
    Ok(Recovered { generation, snapshot: None, facts: Vec::new(), cut: Some(cut) })
}
