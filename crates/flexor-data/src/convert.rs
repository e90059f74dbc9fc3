//! Turns data of one format into another.
//!
//! | from | to | a record becomes |
//! |---|---|---|
//! | IDX | RecordIO | a `tf.train.Example` of `image` and `label`, as ElasticDL has it |
//! | CSV | RecordIO | a `tf.train.Example` with a feature for each column |
//! | RecordIO of such examples | CSV | a line with a field for each feature |
//! | text | RecordIO | the bytes of the line |
//! | RecordIO | text | a line |
//! | RecordIO | RecordIO | itself, in other chunks, with another compressor or in other files |
//!
//! Anything else makes no sense and is refused. Damaged records are left out and counted, where they are to be skipped
//! and others are left.

mod columns;
mod files;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use thiserror::Error;

use crate::damage::OnDamage;
use crate::dataset::{Content, Dataset};
use crate::error::DataError;
use crate::example::ExampleWriter;
use crate::format::Format;
use crate::generate::digits;
use crate::output::{Existing, OutputError};
use crate::place::Place;
use crate::recordio::{WriteError, WriterOptions};
use columns::{ExampleOfLine, LineOfExample};
use files::Files;

/// How many records are read at once.
const AT_ONCE: u64 = 1024;

/// What data is turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// RecordIO.
    RecordIo(WriterOptions),
    /// A table with the names of its columns.
    Csv,
    /// Lines.
    Text,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// The format.
    pub target: Target,
    /// Where: a file, or a folder if there is a number of records for each file.
    pub to: PathBuf,
    /// How many records each file has, in a folder of files called data-00000 and so on.
    pub records_per_file: Option<u64>,
    /// What becomes of files that are there already.
    pub existing: Existing,
}

/// How many records that do not fit are named: to know a record's line is to read the file up to there.
const NAMED: usize = 10;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Converted {
    /// How many records.
    pub records: u64,
    /// How many were left out because they are damaged, or do not fit.
    pub damaged: u64,
    /// Where the first of those lie that do not fit, and why not.
    pub unfit: Vec<(Place, String)>,
    /// How many more do not fit.
    pub unfit_more: u64,
    /// The files.
    pub files: Vec<PathBuf>,
}

/// Why data was not turned into something else.
#[derive(Debug, Error)]
pub enum ConvertError {
    /// The data cannot be had.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file cannot be begun or put in place.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: WriteError,
    },
    /// There is no such conversion.
    #[error("{from} cannot be turned into {to}; see `flexor data convert --help` for what can")]
    NoWay {
        /// What there is.
        from: Format,
        /// What is wanted.
        to: Format,
    },
    /// A table whose columns have no names.
    #[error("the columns need names, which become those of the features: put a first line with them into the file")]
    NoColumns,
    /// A record does not fit into the other format.
    #[error("{place}: {why}")]
    Record {
        /// Where it stands.
        place: Place,
        /// What is in the way.
        why: String,
    },
}

/// Turns a dataset into other files. `told` hears how many records are done.
///
/// # Errors
///
/// It makes no sense, something cannot be read or written, or all records are damaged. Files that were whole by then
/// stay.
pub fn convert(
    dataset: &Dataset,
    conversion: &Conversion,
    told: &mut dyn FnMut(u64),
) -> Result<Converted, ConvertError> {
    let mut way = Way::find(dataset, conversion.target)?;
    let mut files = Files::new(conversion);
    files.set_header(way.header());
    let mut converted = Converted::default();
    let skips = dataset.on_damage() == OnDamage::Skip;
    let mut next = 0;
    while next < dataset.len() {
        let end = dataset.len().min(next + AT_ONCE);
        let (mut failed, mut unfit) = (None, Vec::new());
        let progress = dataset.read(next..end, &mut |record| {
            let Content::Whole(bytes) = record.content else { return };
            if failed.is_none() {
                let written = match way.go(bytes) {
                    Ok(bytes) => files.write(bytes).map_err(Stopped::Files),
                    Err(why) if skips => {
                        unfit.push((record.number, why));
                        Ok(())
                    }
                    Err(why) => Err(Stopped::Record { number: record.number, why }),
                };
                failed = written.err();
            }
        })?;
        match failed {
            None => {}
            Some(Stopped::Files(error)) => return Err(error),
            Some(Stopped::Record { number, why }) => {
                return Err(ConvertError::Record { place: dataset.place_with_line(number)?, why });
            }
        }
        converted.records += progress.records - unfit.len() as u64;
        converted.damaged += progress.damaged + unfit.len() as u64;
        let named = unfit.len().min(NAMED.saturating_sub(converted.unfit.len()));
        converted.unfit_more += (unfit.len() - named) as u64;
        for (number, why) in unfit.into_iter().take(named) {
            converted.unfit.push((dataset.place_with_line(number)?, why));
        }
        told(end);
        next = end;
    }
    if converted.records == 0
        && let Some(damage) = dataset.damage().into_iter().next()
    {
        return Err(DataError::NothingLeft(damage).into());
    }
    if converted.records == 0
        && let Some((place, why)) = converted.unfit.pop()
    {
        return Err(ConvertError::Record { place, why });
    }
    converted.files = files.finish()?;
    Ok(converted)
}

impl Target {
    fn format(self) -> Format {
        match self {
            Self::RecordIo(_) => Format::RecordIo,
            Self::Csv => Format::Csv,
            Self::Text => Format::Text,
        }
    }
}

/// Why it does not go on.
enum Stopped {
    /// The record with this number does not fit.
    Record { number: u64, why: String },
    /// A file cannot be written.
    Files(ConvertError),
}

/// How one record becomes another.
enum Way {
    AsItIs,
    AsLine,
    Digit(ExampleWriter),
    Example(ExampleOfLine),
    Table(LineOfExample),
}

impl Way {
    fn find(dataset: &Dataset, target: Target) -> Result<Self, ConvertError> {
        match (dataset.format(), target) {
            (Format::RecordIo | Format::Text, Target::RecordIo(_)) => Ok(Self::AsItIs),
            (Format::RecordIo, Target::Text) => Ok(Self::AsLine),
            (Format::Idx, Target::RecordIo(_)) => Ok(Self::Digit(ExampleWriter::new())),
            (Format::Csv, Target::RecordIo(_)) => Ok(Self::Example(ExampleOfLine::of(dataset)?)),
            (Format::RecordIo, Target::Csv) => Ok(Self::Table(LineOfExample::of(dataset)?)),
            (from, target @ (Target::Csv | Target::Text)) => Err(ConvertError::NoWay { from, to: target.format() }),
        }
    }

    /// What each file begins with.
    fn header(&self) -> Vec<u8> {
        match self {
            Self::AsItIs | Self::AsLine | Self::Digit(_) | Self::Example(_) => Vec::new(),
            Self::Table(table) => table.header(),
        }
    }

    /// The other record, or what is in its way.
    fn go<'a>(&'a mut self, bytes: &'a [u8]) -> Result<&'a [u8], String> {
        match self {
            Self::AsItIs => Ok(bytes),
            Self::AsLine if bytes.contains(&b'\n') => Err("it has a line break in it and cannot be a line".to_owned()),
            Self::AsLine => Ok(bytes),
            Self::Digit(writer) => {
                let (label, pixels) = bytes.split_first().ok_or_else(|| "it is empty".to_owned())?;
                Ok(digits::example(writer, *label, pixels))
            }
            Self::Example(example) => example.go(bytes),
            Self::Table(table) => table.go(bytes),
        }
    }
}
