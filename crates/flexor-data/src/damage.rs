//! Damaged parts of files, and the policy for them.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use serde::Serialize;

/// What happens to damaged records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// Reading fails at the first one.
    #[default]
    Fail,
    /// They are passed on as damaged, and counted. All other records keep their numbers.
    Skip,
}

/// A damaged part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    pub file: PathBuf,
    /// The part's first byte.
    pub offset: u64,
    /// The line at `offset`, from 1, in a file of lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The damaged records, numbered within the file; `None` if unknown.
    pub records: Option<Range<u64>>,
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
