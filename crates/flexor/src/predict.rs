//! `flexor predict`: predicts the labels of records with a model from a checkpoint.

use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use clap::Args;
use flexor_data::output::{Existing, Output};
use flexor_worker::features::Schema;
use flexor_worker::models::Architecture;
use flexor_worker::prediction::{PredictionError, PredictionPlan, PredictionSummary, predict};
use serde::Serialize;

use crate::data::{Damaged, header};
use crate::exit::Exit;
use crate::output::{self, Format};
use crate::worker::measured;
use crate::{checkpoint, logging, signals};

/// Arguments of `flexor predict`.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Model, as it was trained: logistic, wide-deep, deepfm or mlp, with its options
    #[arg(long, value_name = "MODEL")]
    pub model: Architecture,
    /// Folder of checkpoints, as in spec.flexor.checkpoints.folder
    #[arg(long, value_name = "DIR")]
    pub checkpoints: PathBuf,
    /// Number of the checkpoint [default: the latest that is not damaged]
    #[arg(long, value_name = "N")]
    pub number: Option<u64>,
    /// Data: files, or folders of files
    #[arg(long, required = true, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// Meaning of the columns: clicks:numbers=N,fields=M (a label, N numbers, M categories; ,scale=log takes the logarithm
    /// of numbers), census or digits [default: detected in tables with a header, RecordIO with named features and IDX]
    #[arg(long, value_name = "SCHEMA")]
    pub schema: Option<Schema>,
    /// Read the first line of tables as a record instead of column names
    #[arg(long)]
    pub no_header: bool,
    /// Treatment of damaged records, and of records that do not fit the schema; skipped ones get no line
    #[arg(long, value_name = "ACTION", value_enum, default_value = "fail")]
    pub damaged: Damaged,
    /// File to write, one line per record; - for standard output. An existing file is replaced when the new one is
    /// complete
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Number of records in a batch
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub batch: u32,
    /// Output format of the scores, which compare predictions with labels. They go to standard output, or to standard
    /// error if the predictions go to standard output
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// The scores of predictions as JSON.
#[derive(Serialize)]
struct ScoresOutput {
    checkpoint: u64,
    records: u64,
    loss: Option<f64>,
    auc: Option<f64>,
    accuracy: Option<f64>,
    skipped: u64,
}

pub fn run(args: &PredictArgs) -> anyhow::Result<Exit> {
    signals::remove_unfinished_on_exit()?;
    // The log names skipped records.
    logging::start_for_run();
    let plan = PredictionPlan {
        architecture: args.model.clone(),
        checkpoints: args.checkpoints.clone(),
        number: args.number,
        data: args.data.clone(),
        schema: args.schema.clone(),
        csv_header: header(args.no_header),
        on_damage: args.damaged.into(),
        batch: args.batch,
    };
    let done = checkpoint::choose(&args.checkpoints, args.number, |id| {
        predict_to(&PredictionPlan { number: Some(id.0), ..plan.clone() }, args)
    });
    match done {
        Ok(()) => Ok(Exit::Success),
        Err(error) => match error.downcast_ref::<PredictionError>() {
            // The reader has closed the pipe, as `| head` does.
            Some(PredictionError::Write(why)) if why.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Success),
            None | Some(PredictionError::Write(_)) => Err(error),
            Some(error) => {
                output::note(&format!("error: {error}"));
                Ok(Exit::Failure)
            }
        },
    }
}

fn predict_to(plan: &PredictionPlan, args: &PredictArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    if args.out == Path::new("-") {
        let predicted = runtime.block_on(predict(plan, &mut BufWriter::new(io::stdout().lock())))?;
        warn_of_damage(&predicted);
        output::note(scores(&predicted, args.output)?.trim_end());
        return Ok(());
    }
    let mut file = Output::create(&args.out, Existing::Replace)?;
    let predicted = runtime.block_on(predict(plan, &mut file))?;
    file.commit()?;
    warn_of_damage(&predicted);
    output::text(&scores(&predicted, args.output)?)
}

fn warn_of_damage(predicted: &PredictionSummary) {
    predicted.damage.iter().for_each(|damage| output::note(&format!("warning: {damage}")));
}

fn scores(predicted: &PredictionSummary, format: Format) -> anyhow::Result<String> {
    match format {
        Format::Json => {
            let PredictionSummary { checkpoint, scores, skipped_records: skipped, .. } = *predicted;
            let (records, loss, auc, accuracy) = (scores.records, scores.loss, scores.auc, scores.accuracy);
            let scores = ScoresOutput { checkpoint, records, loss, auc, accuracy, skipped };
            Ok(format!("{}\n", serde_json::to_string_pretty(&scores)?))
        }
        Format::Text => Ok(format!("{}\n", line(predicted))),
    }
}

fn line(PredictionSummary { checkpoint, scores, skipped_records, .. }: &PredictionSummary) -> String {
    let skipped = if *skipped_records > 0 { format!(", {skipped_records} more skipped") } else { String::new() };
    let measured = measured(scores.loss, scores.auc, scores.accuracy);
    format!("checkpoint {checkpoint}: {} records{measured}{skipped}", scores.records)
}
