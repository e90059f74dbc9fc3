//! Generates datasets of any size whose best possible result is known.
//!
//! Every number is a hash of the seed, its purpose and the record's number ([`noise`]). The same seed and size give the
//! same files, any record can be generated alone, and memory does not grow. [`clicks`] is a log of advertisements,
//! [`census`] a table of people, [`digits`] a set of images. The true probability of every label of a table is known,
//! and with it the best AUC that any model can reach. [`Truth`] is written beside the data.

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

/// The files to generate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerationPlan {
    /// The training file. The others are beside it.
    pub out: PathBuf,
    /// Training records.
    pub records: u64,
    /// Test records, in a file of their own.
    pub test_records: u64,
    /// Records in each file of a folder, which `out` then names. Only for images as RecordIO.
    pub records_per_file: Option<u64>,
    /// Whether existing files are kept or replaced.
    pub existing: Existing,
}

/// Why generating failed.
#[derive(Debug, Error)]
pub enum GenerateError {
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: WriteError },
    /// The format cannot hold so many records.
    #[error("{records} records are more than an IDX file can hold; make RecordIO instead")]
    TooMany { records: u64 },
    /// The files are all open until the last one is written.
    #[error("{records} records make more than {MOST_FILES} files of {records_per_file}; put more records into a file")]
    TooManyFiles { records: u64, records_per_file: u64 },
}

/// The most files of a folder.
const MOST_FILES: u64 = 500;

/// One file and the numbers of its records.
struct GeneratedFile {
    path: PathBuf,
    first: u64,
    records: u64,
}

impl GenerationPlan {
    /// The data files. Test records are numbered behind the training records.
    fn parts(&self) -> Vec<GeneratedFile> {
        let train = GeneratedFile { path: self.out.clone(), first: 0, records: self.records };
        let test = GeneratedFile { path: named(&self.out, "-test"), first: self.records, records: self.test_records };
        if self.test_records == 0 { vec![train] } else { vec![train, test] }
    }

    /// The data files of a table.
    pub fn files(&self) -> Vec<PathBuf> {
        self.parts().into_iter().map(|part| part.path).collect()
    }

    /// The path of the truth file, which is written last.
    pub fn truth(&self) -> PathBuf {
        self.out.with_extension("truth.json")
    }

    fn create(&self, path: &Path) -> Result<Output, GenerateError> {
        Ok(Output::create(path, self.existing)?)
    }
}

/// The path with a suffix before its extension.
fn named(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(suffix);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}
