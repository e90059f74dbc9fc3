//! Where a record stands, for people who look for it.

use std::fmt;
use std::path::PathBuf;

/// Where a record stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// Its number in that file, from 0.
    pub record: u64,
    /// Where it begins, in a file of lines.
    pub offset: Option<u64>,
    /// The line with which it begins, from 1, where that was looked for.
    pub line: Option<u64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, record, offset, line } = self;
        write!(f, "{}: record {record}", file.display())?;
        offset.map_or(Ok(()), |offset| write!(f, ", at byte {offset}"))?;
        line.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}
