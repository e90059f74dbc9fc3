//! Files of lines: text and tables. A sparse index makes a small range a small read.
//!
//! Lines end with a line feed, with or without a carriage return before it; the last one may do without. A byte order
//! mark at the beginning is not part of the data. In tables a quoted field may have line breaks in it, and lines without
//! anything are no records.

mod ends;
mod index;
#[cfg(test)]
mod tests;
mod walk;

pub(crate) use index::{Cut, LineIndex, line_feeds};
pub(crate) use walk::{Lines, LinesError};
