//! `flexor predict`: what a trained model says of records, out of a checkpoint.

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

/// What `flexor predict` takes.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// The model, as it was trained: logistic, wide-deep, deepfm or mlp, with its options
    #[arg(long, value_name = "MODEL")]
    pub model: Architecture,
    /// The folder of checkpoints, as in spec.flexor.checkpoints.folder
    #[arg(long, value_name = "FOLDER")]
    pub checkpoints: PathBuf,
    /// Which checkpoint [default: the latest that is not damaged]
    #[arg(long, value_name = "NUMBER")]
    pub number: Option<u64>,
    /// The data: files, or folders of files
    #[arg(long, required = true, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// What a record means: clicks:numbers=N,fields=M (a label, N numbers, M categories; with ,scale=log numbers count by
    /// their logarithm), census or digits; found out for tables with a header, RecordIO with named features and IDX files
    #[arg(long, value_name = "SCHEMA")]
    pub schema: Option<Schema>,
    /// The first line of tables is a record and does not name the columns
    #[arg(long)]
    pub no_header: bool,
    /// What becomes of damaged records, and of those that mean nothing: it fails at the first, or they have no line, are
    /// named and counted
    #[arg(long, value_name = "WHAT", value_enum, default_value = "fail")]
    pub damaged: Damaged,
    /// The file to write, a line for each record; - for standard output. One that is there is replaced when the new one
    /// is whole
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Records at a time
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub batch: u32,
    /// Output format of the last line, which says how well the predictions fit the labels: on standard output, or on
    /// standard error where the predictions are on the other
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

#[derive(Serialize)]
struct Told {
    checkpoint: u64,
    records: u64,
    loss: Option<f64>,
    auc: Option<f64>,
    accuracy: Option<f64>,
    left_out: u64,
}

/// Predicts.
pub fn run(args: &PredictArgs) -> anyhow::Result<Exit> {
    signals::leave_no_halves()?;
    // Records that are left out are named there.
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
            // The reader has seen enough, as with `| head`.
            Some(PredictionError::Write(why)) if why.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Success),
            None | Some(PredictionError::Write(_)) => Err(error),
            Some(wrong) => {
                output::note(&format!("error: {wrong}"));
                Ok(Exit::Failure)
            }
        },
    }
}

fn predict_to(plan: &PredictionPlan, args: &PredictArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
    if args.out == Path::new("-") {
        let predicted = runtime.block_on(predict(plan, &mut BufWriter::new(io::stdout().lock())))?;
        name_damage(&predicted);
        // The predictions are what is wanted there; how well they fit goes beside them.
        output::note(told(&predicted, args.output)?.trim_end());
        return Ok(());
    }
    let mut file = Output::create(&args.out, Existing::Replace)?;
    let predicted = runtime.block_on(predict(plan, &mut file))?;
    file.commit()?;
    name_damage(&predicted);
    output::text(&told(&predicted, args.output)?)
}

fn name_damage(predicted: &PredictionSummary) {
    predicted.damage.iter().for_each(|damage| output::note(&format!("warning: {damage}")));
}

/// How well the predictions fit.
fn told(predicted: &PredictionSummary, format: Format) -> anyhow::Result<String> {
    match format {
        Format::Json => {
            let PredictionSummary { checkpoint, scores: fit, skipped_records: left_out, .. } = *predicted;
            let (records, loss, auc, accuracy) = (fit.records, fit.loss, fit.auc, fit.accuracy);
            let told = Told { checkpoint, records, loss, auc, accuracy, left_out };
            Ok(format!("{}\n", serde_json::to_string_pretty(&told)?))
        }
        Format::Text => Ok(format!("{}\n", line(predicted))),
    }
}

fn line(PredictionSummary { checkpoint, scores: fit, skipped_records: left_out, .. }: &PredictionSummary) -> String {
    let left_out = if *left_out > 0 { format!(", {left_out} more left out") } else { String::new() };
    format!("checkpoint {checkpoint}: {} records{}{left_out}", fit.records, measured(fit.loss, fit.auc, fit.accuracy))
}
