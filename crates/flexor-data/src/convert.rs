//! Converts data from one format to another.
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
//! Every other pair is refused. Damaged records are skipped and counted, if that is allowed and intact ones are left.

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
use crate::record_location::RecordLocation;
use crate::recordio::{WriteError, WriterOptions};
use columns::{ExampleToLine, LineToExample};
use files::Files;

/// Records per read.
const READ_BATCH: u64 = 1024;

/// The target format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    RecordIo(WriterOptions),
    /// CSV with a header.
    Csv,
    /// One line per record.
    Text,
}

/// A conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    pub target: Target,
    /// A file, or a folder if `records_per_file` is set.
    pub to: PathBuf,
    /// Records per file, in a folder of files `data-00000` and so on.
    pub records_per_file: Option<u64>,
    /// Whether existing files are kept or replaced.
    pub existing: Existing,
}

/// How many unfit records are listed. Finding a record's line reads the file up to there.
const NAMED: usize = 10;

/// The result of a conversion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Converted {
    pub records: u64,
    /// Skipped records: damaged, or unfit for the target format.
    pub damaged: u64,
    /// The first unfit records, and why they are unfit.
    pub unfit: Vec<(RecordLocation, String)>,
    /// How many further records are unfit.
    pub unfit_more: u64,
    pub files: Vec<PathBuf>,
}

/// Why a conversion failed.
#[derive(Debug, Error)]
pub enum ConvertError {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A file cannot be created or renamed.
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: WriteError },
    /// The conversion is not supported.
    #[error("{from} cannot be converted to {to}; `flexor data convert --help` lists the supported conversions")]
    NoWay { from: Format, to: Format },
    /// The table has no header.
    #[error("the features need names: add a header line with the names of the columns")]
    NoColumns,
    /// A record does not fit the target format.
    #[error("{location}: {why}")]
    Record { location: RecordLocation, why: String },
}

/// Converts a dataset. `on_progress` receives the number of converted records.
///
/// # Errors
///
/// The conversion is not supported, a file cannot be read or written, or all records are damaged. Files that were
/// complete by then stay.
pub fn convert(
    dataset: &Dataset,
    conversion: &Conversion,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Converted, ConvertError> {
    let mut way = RecordConverter::find(dataset, conversion.target)?;
    let mut files = Files::new(conversion);
    files.set_header(way.header());
    let mut converted = Converted::default();
    let skips = dataset.on_damage() == OnDamage::Skip;
    let mut next = 0;
    while next < dataset.len() {
        let end = dataset.len().min(next + READ_BATCH);
        let (mut failed, mut unfit) = (None, Vec::new());
        let progress = dataset.read(next..end, &mut |record| {
            let Content::Whole(bytes) = record.content else { return };
            if failed.is_none() {
                let written = match way.convert(bytes) {
                    Ok(bytes) => files.write(bytes).map_err(ConvertStop::Files),
                    Err(why) if skips => {
                        unfit.push((record.number, why));
                        Ok(())
                    }
                    Err(why) => Err(ConvertStop::Record { number: record.number, why }),
                };
                failed = written.err();
            }
        })?;
        match failed {
            None => {}
            Some(ConvertStop::Files(error)) => return Err(error),
            Some(ConvertStop::Record { number, why }) => {
                return Err(ConvertError::Record { location: dataset.location_with_line(number)?, why });
            }
        }
        converted.records += progress.records - unfit.len() as u64;
        converted.damaged += progress.damaged + unfit.len() as u64;
        let named = unfit.len().min(NAMED.saturating_sub(converted.unfit.len()));
        converted.unfit_more += (unfit.len() - named) as u64;
        for (number, why) in unfit.into_iter().take(named) {
            converted.unfit.push((dataset.location_with_line(number)?, why));
        }
        on_progress(end);
        next = end;
    }
    if converted.records == 0
        && let Some(damage) = dataset.damage().into_iter().next()
    {
        return Err(DataError::NothingLeft(damage).into());
    }
    if converted.records == 0
        && let Some((location, why)) = converted.unfit.pop()
    {
        return Err(ConvertError::Record { location, why });
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

/// Why the conversion stopped.
enum ConvertStop {
    /// The record with this number does not fit.
    Record {
        number: u64,
        why: String,
    },
    Files(ConvertError),
}

/// Converts one record.
enum RecordConverter {
    AsItIs,
    AsLine,
    Digit(ExampleWriter),
    Example(LineToExample),
    Table(ExampleToLine),
}

impl RecordConverter {
    fn find(dataset: &Dataset, target: Target) -> Result<Self, ConvertError> {
        match (dataset.format(), target) {
            (Format::RecordIo | Format::Text, Target::RecordIo(_)) => Ok(Self::AsItIs),
            (Format::RecordIo, Target::Text) => Ok(Self::AsLine),
            (Format::Idx, Target::RecordIo(_)) => Ok(Self::Digit(ExampleWriter::new())),
            (Format::Csv, Target::RecordIo(_)) => Ok(Self::Example(LineToExample::of(dataset)?)),
            (Format::RecordIo, Target::Csv) => Ok(Self::Table(ExampleToLine::of(dataset)?)),
            (from, target @ (Target::Csv | Target::Text)) => Err(ConvertError::NoWay { from, to: target.format() }),
        }
    }

    /// The first bytes of each file.
    fn header(&self) -> Vec<u8> {
        match self {
            Self::AsItIs | Self::AsLine | Self::Digit(_) | Self::Example(_) => Vec::new(),
            Self::Table(table) => table.header(),
        }
    }

    /// The converted record, or why it is unfit.
    fn convert<'a>(&'a mut self, bytes: &'a [u8]) -> Result<&'a [u8], String> {
        match self {
            Self::AsItIs => Ok(bytes),
            Self::AsLine if bytes.contains(&b'\n') => Err("it contains a line break".to_owned()),
            Self::AsLine => Ok(bytes),
            Self::Digit(writer) => {
                let (label, pixels) = bytes.split_first().ok_or_else(|| "it is empty".to_owned())?;
                Ok(digits::example(writer, *label, pixels))
            }
            Self::Example(example) => example.convert(bytes),
            Self::Table(table) => table.convert(bytes),
        }
    }
}
