//! Parses the bytes of records into batches.
//!
//! A [`Schema`] defines the content of a record. [`Features`] parses records into a [`Batch`], checks them, and names
//! the record and the column of an error. Categorical values become keys ([`key`]). Numbers are scaled by fixed rules
//! of the schema, so a worker needs no statistics of the data.
//!
//! It does *not* find or split records: that is `flexor-data`.

mod columns;
mod digits;
mod key;
mod pickle;
mod schema;
#[cfg(test)]
mod tests;

use columns::Columns;
use digits::Digits;
pub use key::{crossed, key};
pub use schema::{Scale, Schema, SchemaError};

use crate::{Batch, Inputs};

/// Parses records of one schema.
#[derive(Debug)]
pub struct Features {
    reader: Reader,
    /// At least one record was parsed.
    has_parsed: bool,
}

#[derive(Debug)]
enum Reader {
    Columns(Columns),
    Digits(Digits),
}

/// A record that cannot be parsed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("record {record}: {problem}")]
pub struct BadRecord {
    /// The record's number in the dataset.
    pub record: u64,
    pub problem: Problem,
}

/// Why a record cannot be parsed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The label is invalid.
    #[error("column {column} is {value:?}, which is no label; write {wanted}")]
    Label { column: String, value: String, wanted: String },
    /// The number is invalid.
    #[error("column {column} is {value:?}, which is no finite number; correct it, or leave it empty if it is unknown")]
    Number { column: String, value: String },
    /// The record has too few or too many columns.
    #[error(
        "it has {found} columns, and a record has {wanted}: {names}; correct it, or choose the schema that fits the file"
    )]
    Columns { found: usize, wanted: usize, names: String },
    /// The record is no example, or lacks a column.
    #[error("{0}; give lines of CSV, or tf.train.Example with a feature of one value for each column of the schema")]
    Example(String),
    /// The record is no image.
    #[error("{0}; give images of 28 × 28 pixels, as IDX files or as tf.train.Example with `image` and `label`")]
    Image(String),
    /// The record is a pickled object of Python.
    #[error("it is {}", pickle::ADVICE)]
    Pickle,
}

impl Features {
    pub fn new(schema: &Schema) -> Self {
        let reader = Columns::of(schema).map_or_else(|| Reader::Digits(Digits::default()), Reader::Columns);
        Self { reader, has_parsed: false }
    }

    pub fn inputs(&self) -> Inputs {
        match &self.reader {
            Reader::Columns(columns) => columns.inputs(),
            Reader::Digits(_) => Digits::INPUTS,
        }
    }

    /// Adds a record to a batch; errors name it by `number`. A bad record leaves the batch unchanged.
    pub fn add(&mut self, number: u64, record: &[u8], batch: &mut Batch) -> Result<(), BadRecord> {
        let read = match &mut self.reader {
            Reader::Columns(columns) => columns.read(record, batch),
            Reader::Digits(digits) => digits.read(record, batch),
        };
        self.has_parsed |= read.is_ok();
        read.map_err(|problem| BadRecord {
            record: number,
            problem: if pickle::is_pickle(record) { Problem::Pickle } else { problem },
        })
    }

    /// Whether a record was parsed so far. Then the schema fits the data, and further errors are about single records.
    pub(crate) fn has_parsed(&self) -> bool {
        self.has_parsed
    }
}
