//! What is wrong with a file, and what is to be done about it.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

/// What happens when a part of a file is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// Reading fails.
    #[default]
    Fail,
    /// The records of that part are handed on as damaged, and counted. All others keep their numbers.
    Skip,
}

/// A part of a file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Where the part begins.
    pub offset: u64,
    /// The line that begins there, from 1, of a file of lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Which records of the file cannot be had, counted from its beginning; nothing where nobody knows.
    pub records: Option<Range<u64>>,
    /// What is wrong.
    pub flaw: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, line, records, flaw } = self;
        write!(f, "{}: damaged at byte {offset}", file.display())?;
        line.map_or(Ok(()), |line| write!(f, ", line {line}"))?;
        match records {
            Some(records) if records.end == records.start + 1 => write!(f, ", record {}", records.start)?,
            Some(records) => write!(f, ", records {} to {}", records.start, records.end.saturating_sub(1))?,
            None => f.write_str(", everything behind it")?,
        }
        write!(f, ": {flaw}")
    }
}
