//! Data files: RecordIO, CSV, text and IDX, read by ranges of records.
//!
//! [`Dataset`] is what programs that train use: one numbered sequence of records over any number of files, of which any
//! range can be had cheaply, by many threads. [`recordio`] and [`example`] are the formats that ElasticDL's users bring,
//! [`generate`] makes data sets up whose best possible result is known, [`convert`] turns one format into another and
//! [`inspect`] tells what is in files and what is wrong with them.
//!
//! Nothing here decides which records are read when: that is the ledger's business. Nor is it known what a record means.

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
mod place;
pub mod read_at;
pub mod recordio;

pub use damage::{Damage, OnDamage};
pub use dataset::{Content, Dataset, FileInfo, Options, Progress, Record};
pub use error::DataError;
pub use format::{CsvHeader, Format};
pub use idx::{IdxWriter, Part as IdxPart};
pub use place::Place;
