//! Files of lines: text and tables, with a sparse index for small ranges.
//!
//! Lines end with a line feed, with or without a carriage return; the last one may lack it. A byte order mark at the
//! start is skipped. In tables a quoted field may contain line breaks, and empty lines are no records.

mod ends;
mod index;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use index::{LineIndex, TruncatedRow, line_feeds};
pub(crate) use walk::{Lines, LinesError};
