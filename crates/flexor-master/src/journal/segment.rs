//! The format of one segment: a header, a snapshot, facts. No files here.
//!
//! The header's format never changes, so every version can read the owner and the format version of a segment. A
//! segment is read up to its first bad or incomplete record, so the result is always a prefix of what was written.
//! Facts are written only when the snapshot before them is durable. A bad header or snapshot *with valid records behind
//! it* is therefore damage, not a crash, and nothing is read.

use flexor_model::{Generation, JobUid};

use super::record::{self, Kind};

/// The format that this program writes, and the newest it reads.
pub(super) const FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"FLXJRNL\n";

/// The header of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The generation that wrote the segment.
    pub generation: Generation,
    pub job: JobUid,
}

/// The content of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub header: Header,
    /// The state before `facts`; `None` if the segment ends inside it.
    pub snapshot: Option<Vec<u8>>,
    /// The facts since the snapshot, in order. Empty without a snapshot.
    pub facts: Vec<Vec<u8>>,
    /// The unreadable tail, if there is one.
    pub bad_tail: Option<BadTail>,
}

/// The unreadable tail of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTail {
    /// The start of the first bad record.
    pub offset: u64,
    /// From there to the end of the file.
    pub bytes: u64,
    /// Valid records follow the bad one, or so many bytes look like records that the search was given up. The segment
    /// was damaged after it was written; a killed process leaves nothing behind a torn record.
    pub records_follow: bool,
    /// The facts behind the bad record that a bounded search found. They are not part of the prefix.
    pub facts_behind: Vec<Vec<u8>>,
    /// The unreadable part may hold more than one record.
    pub may_hold_several: bool,
}

/// Why nothing of a segment can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The process ended before it wrote the header.
    Unfinished,
    /// A later version wrote it in this format.
    NewerFormat(u32),
    /// The header or snapshot was complete once and is damaged.
    Damaged { offset: u64 },
}

impl Segment {
    /// Reads the bytes of a segment file.
    pub fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let Some((format, header, records)) = Header::take(bytes) else {
            let was_written = record::search(bytes).may_hold_records();
            return Err(if was_written { Unreadable::Damaged { offset: 0 } } else { Unreadable::Unfinished });
        };
        if format > FORMAT {
            return Err(Unreadable::NewerFormat(format));
        }
        let mut segment = Self { header, snapshot: None, facts: Vec::new(), bad_tail: None };
        let mut rest = records;
        while !rest.is_empty() {
            let Some((kind, payload)) = record::take(rest) else { break };
            match (kind, &segment.snapshot) {
                (Kind::Snapshot, None) => segment.snapshot = Some(payload.to_vec()),
                (Kind::Fact, Some(_)) => segment.facts.push(payload.to_vec()),
                (Kind::Snapshot, Some(_)) | (Kind::Fact, None) => break,
            }
            rest = &rest[record::size(payload)..];
        }
        if !rest.is_empty() {
            let offset = (bytes.len() - rest.len()) as u64;
            let behind = record::search(rest);
            let records_follow = behind.may_hold_records();
            if segment.snapshot.is_none() && records_follow {
                return Err(Unreadable::Damaged { offset });
            }
            let facts = behind.records.iter().filter(|(kind, _)| *kind == Kind::Fact);
            segment.bad_tail = Some(BadTail {
                offset,
                bytes: rest.len() as u64,
                records_follow,
                facts_behind: facts.map(|(_, payload)| payload.to_vec()).collect(),
                may_hold_several: !record::is_one_at_most(rest),
            });
        }
        Ok(segment)
    }

    /// The bytes of this segment, without a bad tail.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.to_bytes();
        if let Some(snapshot) = &self.snapshot {
            record::put(&mut bytes, Kind::Snapshot, snapshot);
            self.facts.iter().for_each(|fact| record::put(&mut bytes, Kind::Fact, fact));
        }
        bytes
    }
}

impl Header {
    /// `magic | u32 format | u64 generation | u32 length of uid | uid | u32 crc32 of all before`, little-endian.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let uid = self.job.to_string();
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.generation.0.to_le_bytes());
        bytes.extend_from_slice(&(uid.len() as u32).to_le_bytes());
        bytes.extend_from_slice(uid.as_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Format, header and the remaining bytes, if `bytes` begin with a valid header.
    pub(super) fn take(bytes: &[u8]) -> Option<(u32, Self, &[u8])> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (format, rest) = rest.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (uid, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let covered = &bytes[..bytes.len() - rest.len()];
        let (crc, rest) = rest.split_first_chunk()?;
        if crc32fast::hash(covered) != u32::from_le_bytes(*crc) {
            return None;
        }
        let header = Self {
            generation: Generation(u64::from_le_bytes(*generation)),
            job: JobUid::from(std::str::from_utf8(uid).ok()?),
        };
        Some((u32::from_le_bytes(*format), header, rest))
    }
}
