//! `flexor data gen`: generates synthetic datasets.

mod existing_files;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use flexor_data::generate::{self, GenerateError, GenerationPlan, Table, TableFormat, Truth, census, clicks, digits};
use flexor_data::output::OutputError;

use self::existing_files::RequestedDataset;
use super::progress::RecordProgress;
use super::{ForceArg, RecordIoArgs, Refused, has_extension};
use crate::exit::Exit;
use crate::output::{self, Format};

#[derive(Debug, Subcommand)]
pub enum GenCommand {
    /// Generate a log of advertisements, to train click models; the best AUC is about 0.80
    ///
    /// Columns are label (0 or 1), four numbers n0 to n3 and ten categories c0 to c9 with 100 to 10,000 values, low values
    /// far more frequent. The label depends on each value, and on pairs of values of c0 to c3, as in factorization machines.
    #[command(
        after_help = "Examples:\n  flexor data gen clicks --out clicks.csv --records 500000 --test-records 50000\n  flexor data gen clicks --out clicks.recordio --records 1000000000 --seed 7"
    )]
    Clicks(TableArgs),
    /// Generate images of digits in MNIST's size: 28 × 28 pixels, ten classes
    ///
    /// Digits are drawn with noise, shifted, rotated and scaled. Labels are never wrong. As IDX, --out NAME writes
    /// NAME-images-idx3-ubyte and NAME-labels-idx1-ubyte; as RecordIO each record is a tf.train.Example as in ElasticDL's
    /// MNIST.
    #[command(
        after_help = "Examples:\n  flexor data gen digits --out digits --records 60000 --test-records 10000\n  flexor data gen digits --out digits.recordio --records 60000\n  flexor data gen digits --out mnist --records 60000 --records-per-file 4096"
    )]
    Digits(DigitsArgs),
    /// Generate a table of people with the columns of the UCI census data: do they earn more than 50,000?
    ///
    /// All people in it are made up. The label (0 or 1) comes first, the other columns as in the original.
    #[command(after_help = "Example:\n  flexor data gen census --out census.csv --records 30000 --test-records 15000")]
    Census(TableArgs),
}

/// Arguments for tables.
#[derive(Debug, Args)]
pub struct TableArgs {
    #[command(flatten)]
    pub size: SizeArgs,
    /// Format to write [default: from the extension of --out, .csv or .recordio]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<TableFormatArg>,
    #[command(flatten)]
    pub record_io: RecordIoArgs,
}

/// Arguments for images.
#[derive(Debug, Args)]
pub struct DigitsArgs {
    #[command(flatten)]
    pub size: SizeArgs,
    /// Format to write [default: recordio if --out ends in .recordio or with --records-per-file, else idx]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<DigitsFormatArg>,
    /// Write a folder of RecordIO files with N records each, named data-00000 and so on; --out names the folder
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub records_per_file: Option<u64>,
    #[command(flatten)]
    pub record_io: RecordIoArgs,
}

/// The most records of a file: more than any disk holds.
const MOST_RECORDS: u64 = 1 << 40;

/// Size and place of the dataset.
#[derive(Debug, Args)]
pub struct SizeArgs {
    /// File of training records; other files are written beside it
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// Number of training records
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(..=MOST_RECORDS))]
    pub records: u64,
    /// Number of test records, in a file of their own: NAME-test
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST_RECORDS))]
    pub test_records: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub force: ForceArg,
    /// Do nothing if the data exists already, for pods that start together. Fail if NAME.truth.json says that it was
    /// generated with other options
    #[arg(long, conflicts_with = "force")]
    pub if_missing: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormatArg {
    /// A line of column names, then one line per record
    Csv,
    /// One tf.train.Example per record
    Recordio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DigitsFormatArg {
    /// A file of images and a file of labels
    Idx,
    /// One tf.train.Example per record
    Recordio,
}

pub(super) fn run(command: &GenCommand) -> anyhow::Result<Exit> {
    let (kind, size, files) = match command {
        GenCommand::Clicks(args) => ("clicks", &args.size, args.size.plan().files()),
        GenCommand::Census(args) => ("census", &args.size, args.size.plan().files()),
        GenCommand::Digits(args) => ("digits", &args.size, digits::files(&args.plan(), args.format()?)),
    };
    let plan = match command {
        GenCommand::Clicks(args) | GenCommand::Census(args) => args.size.plan(),
        GenCommand::Digits(args) => args.plan(),
    };
    let requested = RequestedDataset { kind, size, plan, files };
    if size.if_missing && requested.exists()? {
        output::note(&format!("{} exists already", super::shown(&size.out)));
        return Ok(Exit::Success);
    }
    let generated = match command {
        GenCommand::Clicks(args) => table(&clicks::Clicks::new(args.size.seed), args)?,
        GenCommand::Census(args) => table(&census::Census::new(args.size.seed), args)?,
        GenCommand::Digits(args) => images(args)?,
    };
    if let (Err(GenerateError::Output(OutputError::Exists(_))), true) = (&generated, size.if_missing) {
        requested.await_other_writer()?;
        return Ok(Exit::Success);
    }
    let truth = generated.map_err(|error| match error {
        GenerateError::Output(OutputError::Exists(_))
        | GenerateError::TooMany { .. }
        | GenerateError::TooManyFiles { .. } => Refused(error.into()).into(),
        GenerateError::Output(OutputError::Io { .. }) | GenerateError::Write { .. } => anyhow::Error::new(error),
    })?;
    match size.output {
        Format::Json => output::json(&truth)?,
        Format::Text => output::text(&text(&truth, &size.out))?,
    }
    Ok(Exit::Success)
}

fn table(table: &dyn Table, args: &TableArgs) -> anyhow::Result<Result<Truth, GenerateError>> {
    let format = match args.format {
        Some(TableFormatArg::Csv) => TableFormat::Csv,
        Some(TableFormatArg::Recordio) => TableFormat::RecordIo(args.record_io.options()),
        None if has_extension(&args.size.out, "csv") => TableFormat::Csv,
        None if has_extension(&args.size.out, "recordio") => TableFormat::RecordIo(args.record_io.options()),
        None => {
            let why = "--out ends neither in .csv nor in .recordio; give the format with --format";
            return Err(Refused(anyhow::anyhow!(why)).into());
        }
    };
    let mut progress = args.size.progress();
    Ok(generate::write_table(table, &args.size.plan(), format, &mut |done| progress.update(done)))
}

fn images(args: &DigitsArgs) -> anyhow::Result<Result<Truth, GenerateError>> {
    let format = args.format()?;
    let mut progress = args.size.progress();
    Ok(digits::write(args.size.seed, &args.plan(), format, &mut |done| progress.update(done)))
}

impl DigitsArgs {
    fn format(&self) -> anyhow::Result<digits::DigitsFormat> {
        let is_folder = self.records_per_file.is_some();
        let is_record_io = is_folder || has_extension(&self.size.out, "recordio");
        match self.format {
            Some(DigitsFormatArg::Idx) if is_folder => {
                let why = "--records-per-file makes RecordIO; leave out --format idx";
                Err(Refused(anyhow::anyhow!(why)).into())
            }
            Some(DigitsFormatArg::Recordio) => Ok(digits::DigitsFormat::RecordIo(self.record_io.options())),
            None if is_record_io => Ok(digits::DigitsFormat::RecordIo(self.record_io.options())),
            Some(DigitsFormatArg::Idx) | None => Ok(digits::DigitsFormat::Idx),
        }
    }

    fn plan(&self) -> GenerationPlan {
        GenerationPlan { records_per_file: self.records_per_file, ..self.size.plan() }
    }
}

impl SizeArgs {
    fn plan(&self) -> GenerationPlan {
        let Self { out, records, test_records, force, .. } = self;
        GenerationPlan {
            out: out.clone(),
            records: *records,
            test_records: *test_records,
            records_per_file: None,
            existing: force.existing(),
        }
    }

    fn progress(&self) -> RecordProgress {
        RecordProgress::new("generated", self.records.saturating_add(self.test_records))
    }
}

fn text(truth: &Truth, out: &Path) -> String {
    let mut text = String::new();
    for file in &truth.files {
        let shares = file.positives.map(|ones| 100.0 * ones as f64 / file.records.max(1) as f64);
        let shares = shares.map_or(String::new(), |share| format!(", {share:.1} % with label 1"));
        let best = file.best_auc.map_or(String::new(), |auc| format!(", best AUC {auc:.4}"));
        let path = out.with_file_name(&file.file);
        text.push_str(&format!("{}: {} records{shares}{best}\n", super::shown(&path), file.records));
    }
    if let Some(accuracy) = truth.best_accuracy {
        text.push_str(&format!("best accuracy {accuracy:.2}: all labels are correct\n"));
    }
    text
}
