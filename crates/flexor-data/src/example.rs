//! `tf.train.Example`: the records of ElasticDL's data sets, as much of protocol buffers as they need.
//!
//! An example is a list of named features; a feature is a list of bytes, of floats or of integers. What is read borrows
//! from the record. Features keep the order in which they were written.

mod reading;
#[cfg(test)]
mod tests;
mod writing;

use thiserror::Error;

pub use reading::{Values, find, read};
pub use writing::ExampleWriter;

/// Why bytes are no example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a tf.train.Example: {0}")]
pub struct NotAnExample(&'static str);

/// The tags of the messages: field number and wire type.
mod tag {
    /// A length and so many bytes.
    pub(super) const BYTES: u8 = 2;
    /// A number of seven bits a byte.
    pub(super) const VARINT: u8 = 0;
    /// Eight bytes.
    pub(super) const FIXED_64: u8 = 1;
    /// Four bytes.
    pub(super) const FIXED_32: u8 = 5;

    /// `Example.features`, `Features.feature`, the key of a map, the values of a list: field 1 of each.
    pub(super) const FIRST: u8 = (1 << 3) | BYTES;
    /// The value of a map.
    pub(super) const MAP_VALUE: u8 = (2 << 3) | BYTES;
    /// `Feature.bytes_list`.
    pub(super) const BYTES_LIST: u8 = (1 << 3) | BYTES;
    /// `Feature.float_list`.
    pub(super) const FLOAT_LIST: u8 = (2 << 3) | BYTES;
    /// `Feature.int64_list`.
    pub(super) const INT64_LIST: u8 = (3 << 3) | BYTES;
}
