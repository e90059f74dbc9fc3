//! `tf.train.Example`, the record format of ElasticDL's datasets, with the needed part of protocol buffers.
//!
//! An example is a list of named features; a feature is a list of bytes, floats or integers. Parsed features borrow
//! from the record, and keep the order in which they were written.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

use thiserror::Error;

pub use reader::{Values, find, read};
pub use writer::ExampleWriter;

/// Why bytes are no example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a tf.train.Example: {0}")]
pub struct NotAnExample(&'static str);

/// Tags of the messages: field number and wire type.
mod tag {
    /// Length-delimited bytes.
    pub(super) const BYTES: u8 = 2;
    /// An integer with seven bits per byte.
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
