//! The location of a record, for messages.

use std::fmt;
use std::path::PathBuf;

/// The location of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordLocation {
    pub file: PathBuf,
    /// The number in the file, from 0.
    pub record: u64,
    /// The first byte, in a file of lines.
    pub offset: Option<u64>,
    /// The first line, from 1, if it was looked up.
    pub line: Option<u64>,
}

impl fmt::Display for RecordLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, record, offset, line } = self;
        write!(f, "{}: record {record}", file.display())?;
        offset.map_or(Ok(()), |offset| write!(f, ", at byte {offset}"))?;
        line.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}
