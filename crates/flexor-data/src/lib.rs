//! Data files: RecordIO, CSV, text and IDX, read by ranges of records.
//!
//! Training programs use [`Dataset`]: one numbered sequence of records over any number of files. Any range is read
//! cheaply, by many threads. [`recordio`] and [`example`] are ElasticDL's formats. [`generate`] makes datasets whose
//! best possible result is known. [`convert`] converts between formats, and [`inspect`] shows the content of files and
//! their damage.
//!
//! Which records are read when is decided by the ledger, not here. The meaning of a record is defined in
//! `flexor-worker`.

pub mod convert;
pub mod csv;
mod damage;
mod data_file;
mod dataset;
mod error;
pub mod example;
mod format;
pub mod generate;
mod idx;
pub mod inspect;
mod lines;
pub mod output;
pub mod read_at;
mod record_location;
pub mod recordio;

pub use damage::{Damage, OnDamage};
pub use dataset::{Content, Dataset, FileInfo, Options, Progress, Record};
pub use error::DataError;
pub use format::{CsvHeader, Format};
pub use idx::{IdxWriter, Part as IdxPart};
pub use record_location::RecordLocation;
