//! `flexor data`: makes data up, turns it into other formats, and looks into it.
//!
//! Nothing is read or written here but through `flexor-data`; this is what can be typed and what is printed.

mod convert;
mod generate;
mod inspect;
mod progress;

use std::path::Path;

use clap::{Args, Subcommand, ValueEnum};
use flexor_data::recordio::{Compressor, DEFAULT_CHUNK_LIMIT, MOST_CHUNK_LIMIT, WriterOptions};
use flexor_data::{CsvHeader, DataError, OnDamage, Options, output::Existing};

pub use self::{convert::ConvertArgs, generate::GenCommand, inspect::InspectArgs};
use crate::exit::{Exit, Refused};
use crate::{output, signals};

/// What can be done with data files.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Make a data set up, of any size, whose best possible result is known
    ///
    /// The same seed and numbers give the same files. Records to test with come from the same source as those to train
    /// with and are none of them. Beside the data stands NAME.truth.json: the best AUC or accuracy that any model can
    /// have on it, so that learning can be checked.
    #[command(subcommand)]
    Gen(GenCommand),
    /// Turn data of one format into another
    ///
    /// IDX becomes RecordIO of tf.train.Example with the features image and label, as ElasticDL's MNIST has it. CSV
    /// becomes RecordIO of tf.train.Example with a feature for each column: of integers or floats, where all its values
    /// are that, else of bytes. RecordIO of such examples becomes CSV again. Text and RecordIO become each other, a line
    /// for each record; and RecordIO becomes RecordIO with another compressor, other chunks or other files.
    #[command(
        after_help = "Examples:\n  flexor data convert train-images-idx3-ubyte.gz mnist/train --records-per-file 4096\n  flexor data convert clicks.csv clicks.recordio --compressor gzip\n  flexor data convert old/ new.recordio --damaged skip"
    )]
    Convert(ConvertArgs),
    /// Tell what is in data files, and what is wrong with them
    ///
    /// Every record is read and every checksum taken; a damaged part is named by file and place. The exit code is 1 if
    /// something is damaged.
    #[command(
        after_help = "Examples:\n  flexor data inspect mnist/train\n  flexor data inspect clicks.csv --head 3\n  flexor data inspect -o json mnist/train | jq '.damage'"
    )]
    Inspect(InspectArgs),
}

/// Does it.
pub fn run(command: &DataCommand) -> anyhow::Result<Exit> {
    signals::leave_no_halves()?;
    let done = match command {
        DataCommand::Gen(command) => generate::run(command),
        DataCommand::Convert(args) => convert::run(args),
        DataCommand::Inspect(args) => inspect::run(args),
    };
    done.or_else(|error| {
        // Data that cannot be had is a bad input, and so is a file in the way; a disk that refuses is not.
        let is_input = error.is::<DataError>() || error.is::<Refused>();
        if !is_input {
            return Err(error);
        }
        output::note(&format!("error: {}", output::with_causes(&error)));
        Ok(Exit::Failure)
    })
}

/// What becomes of damaged records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Damaged {
    /// Nothing is done with the data
    Fail,
    /// They are left out and counted
    Skip,
}

impl From<Damaged> for OnDamage {
    fn from(damaged: Damaged) -> Self {
        match damaged {
            Damaged::Fail => Self::Fail,
            Damaged::Skip => Self::Skip,
        }
    }
}

/// How data is to be read.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// The format, where neither content nor name tells it
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<SourceFormat>,
    /// The first line of tables is a record and does not name the columns
    #[arg(long)]
    pub no_header: bool,
}

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SourceFormat {
    /// Chunks of records, compressed and checksummed
    Recordio,
    /// A table with a record in a line
    Csv,
    /// A record in a line
    Text,
    /// Images and their labels
    Idx,
}

impl SourceArgs {
    fn options(&self) -> Options {
        let format = self.format.map(|format| match format {
            SourceFormat::Recordio => flexor_data::Format::RecordIo,
            SourceFormat::Csv => flexor_data::Format::Csv,
            SourceFormat::Text => flexor_data::Format::Text,
            SourceFormat::Idx => flexor_data::Format::Idx,
        });
        Options { format, csv_header: header(self.no_header), ..Options::default() }
    }
}

/// How RecordIO is written.
#[derive(Debug, Clone, Args)]
pub struct RecordIoArgs {
    /// How RecordIO is compressed
    #[arg(long, value_name = "NAME", value_enum, default_value = "snappy")]
    pub compressor: CompressorArg,
    /// How many bytes of records a chunk of RecordIO holds at most
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_CHUNK_LIMIT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CHUNK_LIMIT)))]
    pub chunk_limit: u32,
}

/// A compressor of RecordIO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompressorArg {
    /// Larger files, nothing to compute
    None,
    /// What ElasticDL's tools write
    Snappy,
    /// Smaller files; a range of records costs reading its whole chunk
    Gzip,
}

impl RecordIoArgs {
    fn options(&self) -> WriterOptions {
        let compressor = match self.compressor {
            CompressorArg::None => Compressor::None,
            CompressorArg::Snappy => Compressor::Snappy,
            CompressorArg::Gzip => Compressor::Gzip,
        };
        WriterOptions { compressor, chunk_limit: self.chunk_limit }
    }
}

/// What becomes of files that are there already.
#[derive(Debug, Clone, Args)]
pub struct ForceArg {
    /// Replace files that are there already
    #[arg(long)]
    pub force: bool,
}

impl ForceArg {
    fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

/// Whether a path ends like this.
fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// A path as it is shown.
fn shown(path: &Path) -> String {
    output::on_one_line(&path.display().to_string())
}

/// Whether tables begin with the names of their columns, as `--no-header` says.
pub(crate) fn header(is_missing: bool) -> CsvHeader {
    if is_missing { CsvHeader::Missing } else { CsvHeader::FirstLine }
}
