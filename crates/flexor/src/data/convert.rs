//! `flexor data convert`: converts data files into RecordIO, CSV or text.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flexor_data::convert::{self, Conversion, ConvertError, Target};
use flexor_data::output::OutputError;
use flexor_data::{Dataset, Options};

use super::progress::RecordProgress;
use super::{Damaged, ForceArg, RecordIoArgs, SourceArgs, has_extension, shown};
use crate::exit::{Exit, Refused};
use crate::output;

/// Arguments of `flexor data convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// Input: a file, or a folder of files; for IDX the file of images
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// File to write; with --records-per-file the folder
    #[arg(value_name = "TO")]
    pub to: PathBuf,
    /// Format to write [default: from the extension of TO, .csv or .txt, else recordio]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub into: Option<TargetFormat>,
    /// Write a folder of files with N records each, named data-00000 and so on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records_per_file: Option<u64>,
    /// Treatment of damaged records, and of records whose columns do not fit
    #[arg(long, value_name = "ACTION", value_enum, default_value = "fail")]
    pub damaged: Damaged,
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub record_io: RecordIoArgs,
    #[command(flatten)]
    pub force: ForceArg,
}

/// A format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TargetFormat {
    /// Chunks of records
    Recordio,
    /// A table with one record per line
    Csv,
    /// One record per line
    Text,
}

pub(super) fn run(args: &ConvertArgs) -> anyhow::Result<Exit> {
    let options = Options { on_damage: args.damaged.into(), ..args.source.options() };
    let dataset = Dataset::open(std::slice::from_ref(&args.from), &options)?;
    let record_io = Target::RecordIo(args.record_io.options());
    let target = match args.into {
        Some(TargetFormat::Recordio) => record_io,
        Some(TargetFormat::Csv) => Target::Csv,
        Some(TargetFormat::Text) => Target::Text,
        None if has_extension(&args.to, "csv") => Target::Csv,
        None if has_extension(&args.to, "txt") => Target::Text,
        None => record_io,
    };
    let (to, records_per_file, existing) = (args.to.clone(), args.records_per_file, args.force.existing());
    let conversion = Conversion { target, to, records_per_file, existing };
    let mut progress = RecordProgress::new("converted", dataset.len());
    let converted = convert::convert(&dataset, &conversion, &mut |done| progress.update(done));
    drop(progress);
    let converted = converted.map_err(|error| match error {
        ConvertError::Data(error) => anyhow::Error::new(error),
        ConvertError::Output(OutputError::Exists(_))
        | ConvertError::NoWay { .. }
        | ConvertError::NoColumns
        | ConvertError::Record { .. } => Refused(error.into()).into(),
        ConvertError::Output(OutputError::Io { .. }) | ConvertError::Write { .. } => error.into(),
    })?;
    dataset.damage().iter().for_each(|damage| output::note(&format!("warning: {damage}")));
    converted.unfit.iter().for_each(|(place, why)| output::note(&format!("warning: {place}: {why}")));
    if converted.unfit_more > 0 {
        output::note(&format!("warning: {} more do not fit", converted.unfit_more));
    }
    let skipped = match converted.damaged {
        0 => String::new(),
        count => format!(", {count} skipped"),
    };
    let files = match &converted.files[..] {
        [file] => shown(file),
        files => format!("{} files in {}", files.len(), shown(&args.to)),
    };
    output::text(&format!("{files}: {} records{skipped}\n", converted.records))?;
    Ok(Exit::Success)
}
