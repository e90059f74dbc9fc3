//! `flexor data gen`.

mod made_before;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use flexor_data::generate::{self, GenerateError, GenerationPlan, Table, TableFormat, Truth, census, clicks, digits};
use flexor_data::output::OutputError;

use self::made_before::Wanted;
use super::progress::Progress;
use super::{ForceArg, RecordIoArgs, Refused, has_extension};
use crate::exit::Exit;
use crate::output::{self, Format};

/// What can be made up.
#[derive(Debug, Subcommand)]
pub enum GenCommand {
    /// A log of advertisements, to train models of clicks: the best AUC is about 0.80
    ///
    /// Columns are label (0 or 1), four numbers n0 to n3 and ten categories c0 to c9 with 100 to 10,000 values, the low
    /// ones far more frequent. Values count by themselves, those of c0 to c3 also in pairs, as factorization machines have it.
    #[command(
        after_help = "Examples:\n  flexor data gen clicks --out clicks.csv --records 500000 --test-records 50000\n  flexor data gen clicks --out clicks.recordio --records 1000000000 --seed 7"
    )]
    Clicks(TableArgs),
    /// Images of digits in the size of MNIST's: 28 × 28 pixels, ten classes
    ///
    /// Drawn with a trembling pen, shifted, turned and scaled. Labels are never wrong. As IDX, --out NAME makes
    /// NAME-images-idx3-ubyte and NAME-labels-idx1-ubyte; as RecordIO each record is a tf.train.Example as ElasticDL's
    /// MNIST has it.
    #[command(
        after_help = "Examples:\n  flexor data gen digits --out digits --records 60000 --test-records 10000\n  flexor data gen digits --out digits.recordio --records 60000"
    )]
    Digits(DigitsArgs),
    /// A table of people with the columns of the UCI census data: who earns more than 50,000
    ///
    /// Nobody in it exists. The label (0 or 1) comes first, the other columns as in the original.
    #[command(after_help = "Example:\n  flexor data gen census --out census.csv --records 30000 --test-records 15000")]
    Census(TableArgs),
}

/// What making a table takes.
#[derive(Debug, Args)]
pub struct TableArgs {
    #[command(flatten)]
    pub size: SizeArgs,
    /// The format [default: what --out ends in, .csv or .recordio]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<TableFormatArg>,
    #[command(flatten)]
    pub record_io: RecordIoArgs,
}

/// What making images takes.
#[derive(Debug, Args)]
pub struct DigitsArgs {
    #[command(flatten)]
    pub size: SizeArgs,
    /// The format [default: recordio where --out ends in it, else idx]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<DigitsFormatArg>,
    #[command(flatten)]
    pub record_io: RecordIoArgs,
}

/// How much is made, and where.
#[derive(Debug, Args)]
pub struct SizeArgs {
    /// The file to train with; the others are beside it
    #[arg(long, value_name = "PATH")]
    pub out: PathBuf,
    /// How many records to train with
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub records: u64,
    /// How many records to test with, in a file of their own: NAME-test
    #[arg(long, value_name = "M", default_value_t = 0)]
    pub test_records: u64,
    /// What the data hangs on
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub force: ForceArg,
    /// Do nothing where the data is there already, whoever made it: for pods that start together. Data that NAME.truth.json
    /// says was made with other options is refused
    #[arg(long, conflicts_with = "force")]
    pub if_missing: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// In which format tables are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormatArg {
    /// A line for each record, after one with the names of the columns
    Csv,
    /// A tf.train.Example for each record
    Recordio,
}

/// In which format images are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DigitsFormatArg {
    /// A file of images and one of labels
    Idx,
    /// A tf.train.Example for each record
    Recordio,
}

pub(super) fn run(command: &GenCommand) -> anyhow::Result<Exit> {
    let wanted = match command {
        GenCommand::Clicks(args) => Wanted { kind: "clicks", size: &args.size, files: args.size.plan().files() },
        GenCommand::Census(args) => Wanted { kind: "census", size: &args.size, files: args.size.plan().files() },
        GenCommand::Digits(args) => {
            Wanted { kind: "digits", size: &args.size, files: digits::files(&args.size.plan(), args.format()) }
        }
    };
    let size = wanted.size;
    if size.if_missing && wanted.is_there()? {
        output::note(&format!("{} is there already", super::shown(&size.out)));
        return Ok(Exit::Success);
    }
    let made = match command {
        GenCommand::Clicks(args) => table(&clicks::Clicks::new(args.size.seed), args)?,
        GenCommand::Census(args) => table(&census::Census::new(args.size.seed), args)?,
        GenCommand::Digits(args) => images(args),
    };
    if let (Err(GenerateError::Output(OutputError::Exists(_))), true) = (&made, size.if_missing) {
        wanted.await_others()?;
        return Ok(Exit::Success);
    }
    let truth = made.map_err(|error| match error {
        GenerateError::Output(OutputError::Exists(_)) | GenerateError::TooMany { .. } => Refused(error.into()).into(),
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
            let why = "--out ends neither in .csv nor in .recordio; say which it is with --format";
            return Err(Refused(anyhow::anyhow!(why)).into());
        }
    };
    let mut progress = args.size.progress();
    Ok(generate::write_table(table, &args.size.plan(), format, &mut |done| progress.at(done)))
}

fn images(args: &DigitsArgs) -> Result<Truth, GenerateError> {
    let mut progress = args.size.progress();
    digits::write(args.size.seed, &args.size.plan(), args.format(), &mut |done| progress.at(done))
}

impl DigitsArgs {
    fn format(&self) -> digits::DigitsFormat {
        let is_record_io = has_extension(&self.size.out, "recordio");
        match self.format {
            Some(DigitsFormatArg::Recordio) => digits::DigitsFormat::RecordIo(self.record_io.options()),
            None if is_record_io => digits::DigitsFormat::RecordIo(self.record_io.options()),
            Some(DigitsFormatArg::Idx) | None => digits::DigitsFormat::Idx,
        }
    }
}

impl SizeArgs {
    fn plan(&self) -> GenerationPlan {
        let Self { out, records, test_records, force, .. } = self;
        GenerationPlan { out: out.clone(), records: *records, test_records: *test_records, existing: force.existing() }
    }

    fn progress(&self) -> Progress {
        Progress::new("made", self.records.saturating_add(self.test_records))
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
        text.push_str(&format!("best accuracy {accuracy:.2}: no label is wrong\n"));
    }
    text
}
