//! From the bytes of a record to what a model reads.
//!
//! A [`Schema`] says what a record means; [`Features`] turns records into a [`Batch`], one after the other, checks them,
//! and names the record and the column where one is bad. Categorical values become keys (see [`key`]), numbers are
//! scaled by fixed rules that stand with each schema, so that a worker needs no statistics of the data.
//!
//! It is *not* for finding or cutting records: that is `flexor-data`.

mod columns;
mod digits;
mod key;
mod schema;
#[cfg(test)]
mod tests;

use columns::Columns;
use digits::Digits;
pub use key::{crossed, key};
pub use schema::{Scale, Schema, SchemaError};

use crate::{Batch, Inputs};

/// Reads records of one schema.
#[derive(Debug)]
pub struct Features {
    reader: Reader,
    /// Some record has meant something.
    fit: bool,
}

#[derive(Debug)]
enum Reader {
    Columns(Columns),
    Digits(Digits),
}

/// A record that means nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("record {record}: {problem}")]
pub struct BadRecord {
    /// Its number in the dataset.
    pub record: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A label that is none.
    #[error("column {column} is {value:?}, which is no label; write {wanted}")]
    Label {
        /// Where it stands.
        column: String,
        /// What stands there.
        value: String,
        /// What could.
        wanted: String,
    },
    /// A number that is none.
    #[error("column {column} is {value:?}, which is no finite number; mend it, or leave it empty where it is unknown")]
    Number {
        /// Where it stands.
        column: String,
        /// What stands there.
        value: String,
    },
    /// Too few columns, or too many.
    #[error(
        "it has {found} columns, and a record has {wanted}: {names}; mend it, or choose the schema that fits the file"
    )]
    Columns {
        /// How many there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
        /// Which ones.
        names: String,
    },
    /// An example without a column, or no example.
    #[error("{0}; give lines of CSV, or tf.train.Example with a feature of one value for each column of the schema")]
    Example(String),
    /// No image.
    #[error("{0}; give images of 28 × 28 pixels, as IDX files or as tf.train.Example with `image` and `label`")]
    Image(String),
}

impl Features {
    /// A reader of records of a schema.
    pub fn new(schema: &Schema) -> Self {
        let reader = Columns::of(schema).map_or_else(|| Reader::Digits(Digits::default()), Reader::Columns);
        Self { reader, fit: false }
    }

    /// How wide records are for a model.
    pub fn inputs(&self) -> Inputs {
        match &self.reader {
            Reader::Columns(columns) => columns.inputs(),
            Reader::Digits(_) => Digits::INPUTS,
        }
    }

    /// Adds a record to a batch; `number` is what errors call it. A bad record leaves the batch as it was.
    pub fn add(&mut self, number: u64, record: &[u8], batch: &mut Batch) -> Result<(), BadRecord> {
        let read = match &mut self.reader {
            Reader::Columns(columns) => columns.read(record, batch),
            Reader::Digits(digits) => digits.read(record, batch),
        };
        self.fit |= read.is_ok();
        read.map_err(|problem| BadRecord { record: number, problem })
    }

    /// Whether a record has meant something so far: the schema is that of the data then, whatever is wrong with others.
    pub(crate) fn fit(&self) -> bool {
        self.fit
    }
}
