//! Data sets that are made up, of any size, whose best possible result is known.
//!
//! Every number in them is a hash of the seed, of what it is for and of the record's number ([`noise`]): the same seed
//! and size give the same files, any record can be made by itself, and memory does not grow. [`clicks`] is a log of
//! advertisements, [`census`] a table of people, [`digits`] images. For tables the true probability of every label is
//! known, and with it the best AUC that any model can have on them; [`Truth`] is written beside the data and tells it.

mod auc;
pub mod census;
pub mod clicks;
pub mod digits;
#[cfg(test)]
mod learnable;
mod noise;
mod table;
mod truth;

use std::path::{Path, PathBuf};

use thiserror::Error;

pub use table::{Column, Table, TableFormat, Value, write as write_table};
pub use truth::{Truth, TruthOfFile};

use crate::output::{Existing, Output, OutputError};
use crate::recordio::WriteError;

/// What is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where: the file to train with. The others are beside it.
    pub out: PathBuf,
    /// How many records to train with.
    pub records: u64,
    /// How many records to test with, in a file of their own.
    pub test_records: u64,
    /// What becomes of files that are there already.
    pub existing: Existing,
}

/// Why nothing was made.
#[derive(Debug, Error)]
pub enum GenerateError {
    /// A file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A record cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: WriteError,
    },
    /// More than the format can hold.
    #[error("{records} records are more than an IDX file can hold; make RecordIO instead")]
    TooMany {
        /// How many.
        records: u64,
    },
}

/// A part of the data: its file and the numbers of its records.
struct Part {
    path: PathBuf,
    first: u64,
    records: u64,
}

impl Plan {
    /// The files of data. Those to test with have the numbers after those to train with.
    fn parts(&self) -> Vec<Part> {
        let train = Part { path: self.out.clone(), first: 0, records: self.records };
        let test = Part { path: named(&self.out, "-test"), first: self.records, records: self.test_records };
        if self.test_records == 0 { vec![train] } else { vec![train, test] }
    }

    /// The files of data, of a table.
    pub fn files(&self) -> Vec<PathBuf> {
        self.parts().into_iter().map(|part| part.path).collect()
    }

    /// Where the truth is told, which is written last.
    pub fn truth(&self) -> PathBuf {
        self.out.with_extension("truth.json")
    }

    fn create(&self, path: &Path) -> Result<Output, GenerateError> {
        Ok(Output::create(path, self.existing)?)
    }
}

/// The same file with something behind its name, before its extension.
fn named(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(suffix);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}
