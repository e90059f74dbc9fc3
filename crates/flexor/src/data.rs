//! `flexor data`: generates, converts and inspects data files.
//!
//! This module holds arguments, help texts and output. `flexor-data` does all reading and writing of data.

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

#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Generate a synthetic dataset of any size, with a known best score
    ///
    /// The same seed and sizes give the same files. Test records follow the same distribution as training records and do
    /// not overlap with them. NAME.truth.json beside the data holds the best AUC or accuracy that any model can reach on
    /// it, to check training against.
    #[command(subcommand)]
    Gen(GenCommand),
    /// Convert data files into another format
    ///
    /// IDX becomes RecordIO of tf.train.Example with the features image and label, as in ElasticDL's MNIST. CSV becomes
    /// RecordIO of tf.train.Example with one feature per column: integers or floats if all its values are such, else
    /// bytes. RecordIO of such examples becomes CSV again. Text and RecordIO convert both ways, one line per record.
    /// RecordIO also becomes RecordIO with another compressor, chunk size or number of files.
    #[command(
        after_help = "Examples:\n  flexor data convert train-images-idx3-ubyte.gz mnist/train --records-per-file 4096\n  flexor data convert clicks.csv clicks.recordio --compressor gzip\n  flexor data convert old/ new.recordio --damaged skip"
    )]
    Convert(ConvertArgs),
    /// Show the contents of data files, and any damage
    ///
    /// Reads every record and verifies every checksum; names damaged parts by file and position. The exit code is 1 if
    /// something is damaged.
    #[command(
        after_help = "Examples:\n  flexor data inspect mnist/train\n  flexor data inspect clicks.csv --head 3\n  flexor data inspect -o json mnist/train | jq '.damage'"
    )]
    Inspect(InspectArgs),
}

pub fn run(command: &DataCommand) -> anyhow::Result<Exit> {
    signals::remove_unfinished_on_exit()?;
    let done = match command {
        DataCommand::Gen(command) => generate::run(command),
        DataCommand::Convert(args) => convert::run(args),
        DataCommand::Inspect(args) => inspect::run(args),
    };
    done.or_else(|error| {
        // Unreadable data and an existing output file are bad inputs. A disk that refuses writes is not.
        let is_input = error.is::<DataError>() || error.is::<Refused>();
        if !is_input {
            return Err(error);
        }
        output::note(&format!("error: {}", output::with_causes(&error)));
        Ok(Exit::Failure)
    })
}

/// Treatment of damaged records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Damaged {
    /// Stop at the first damaged record
    Fail,
    /// Skip and count damaged records
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

/// Options for reading data.
#[derive(Debug, Clone, Args)]
pub struct SourceArgs {
    /// Format of the input [default: detected from content and name]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<SourceFormat>,
    /// Read the first line of tables as a record instead of column names
    #[arg(long)]
    pub no_header: bool,
}

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SourceFormat {
    /// Chunks of records, compressed and checksummed
    Recordio,
    /// Tables with one record per line
    Csv,
    /// One record per line
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

/// Options for writing RecordIO.
#[derive(Debug, Clone, Args)]
pub struct RecordIoArgs {
    /// Compressor of RecordIO
    #[arg(long, value_name = "NAME", value_enum, default_value = "snappy")]
    pub compressor: CompressorArg,
    /// Largest size of a chunk of RecordIO, in bytes of records
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_CHUNK_LIMIT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CHUNK_LIMIT)))]
    pub chunk_limit: u32,
}

/// A compressor of RecordIO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompressorArg {
    /// Larger files, least CPU time
    None,
    /// The compressor of ElasticDL's tools
    Snappy,
    /// Smaller files; reading a range of records reads its complete chunks
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

/// Treatment of files that exist already.
#[derive(Debug, Clone, Args)]
pub struct ForceArg {
    /// Replace existing files
    #[arg(long)]
    pub force: bool,
}

impl ForceArg {
    fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// A path for output, on one line.
fn shown(path: &Path) -> String {
    output::on_one_line(&path.display().to_string())
}

/// Whether tables begin with a line of column names, from the value of `--no-header`.
pub(crate) fn header(is_missing: bool) -> CsvHeader {
    if is_missing { CsvHeader::Missing } else { CsvHeader::FirstLine }
}
