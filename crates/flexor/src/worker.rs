//! `flexor worker`: trains a built-in model with the job's parameter servers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use flexor_model::{Quantity, env};
use flexor_ps::dial::Dialer;
use flexor_ps::push::NonFinite;
use flexor_ps::spec::Optimizer;
use flexor_worker::ReadError;
use flexor_worker::features::Schema;
use flexor_worker::ledger::WorkerName;
use flexor_worker::models::Architecture;
use flexor_worker::read_optimizer;
use flexor_worker::trainer::{
    EvaluationResult, EvaluationSchedule, ProgressReport, SyncSteps, TestResult, TrainingError, TrainingEvent,
    TrainingOutcome, TrainingPlan, WorkerContext, train,
};

use crate::data::{Damaged, header};
use crate::exit::Exit;
use crate::verbs::amount;
use crate::{logging, output, ps, signals};

/// Arguments of `flexor worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Model: logistic, wide-deep, deepfm or mlp, with options as in deepfm:dim=8,hidden=64x32
    #[arg(long, value_name = "MODEL")]
    pub model: Architecture,
    /// Training data: files, or folders of files
    #[arg(long, required = true, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// Test data to evaluate the model on after training
    #[arg(long, value_name = "PATH")]
    pub test_data: Vec<PathBuf>,
    /// Meaning of the columns: clicks:numbers=N,fields=M (a label, N numbers, M categories; ,scale=log takes the logarithm
    /// of numbers), census or digits [default: detected in tables with a header, RecordIO with named features and IDX]
    #[arg(long, value_name = "SCHEMA")]
    pub schema: Option<Schema>,
    /// Read the first line of tables as a record instead of column names
    #[arg(long)]
    pub no_header: bool,
    /// Treatment of damaged records
    #[arg(long, value_name = "ACTION", value_enum, default_value = "fail")]
    pub damaged: Damaged,
    /// Optimizer, as in sgd:learning_rate=0.1 [default: one that suits the model]
    #[arg(long, value_name = "OPTIMIZER", value_parser = read_optimizer)]
    pub optimizer: Option<Optimizer>,
    /// Number of records in a batch
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub batch: u32,
    /// Wait for every batch as if its data were far away, as in 30ms
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = delay)]
    pub batch_delay: Duration,
    /// Number of epochs
    #[arg(long, value_name = "N", env = env::EPOCHS.name, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub epochs: u32,
    /// Skip and count rows whose gradients are not finite, instead of failing at their batch
    #[arg(long)]
    pub skip_non_finite: bool,
    /// Train synchronously, with N batches per step: the result does not depend on the timing of workers. Without it
    /// training is asynchronous, and servers apply each batch when it arrives
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub grads_to_wait: Option<u32>,
    /// Largest age of the values that a synchronous batch is computed with. With 0, workers start no batch of the next
    /// step before this step is committed
    #[arg(long, value_name = "STEPS", default_value_t = 0, requires = "grads_to_wait")]
    pub staleness_tolerance: u32,
    /// Evaluate the model on --test-data after every N records during training, on one worker at a time
    #[arg(long, value_name = "N", requires = "test_data", value_parser = clap::value_parser!(u64).range(1..))]
    pub evaluate_every: Option<u64>,
    /// Memory that each server may use for a snapshot to evaluate; above it the last checkpoint is evaluated, if there is
    /// one
    #[arg(long, value_name = "BYTES", default_value = "256Mi", requires = "evaluate_every", value_parser = amount)]
    pub evaluation_memory: Quantity,
    /// Largest checkpoint that this worker reads into memory to evaluate it; larger ones are not evaluated
    #[arg(long, value_name = "BYTES", default_value = "2Gi", requires = "evaluate_every", value_parser = amount)]
    pub evaluation_checkpoint: Quantity,
    /// Divide the learning rate of an update by its staleness: the number of other updates since its values were pulled
    #[arg(long, conflicts_with = "grads_to_wait")]
    pub lr_staleness_modulation: bool,
    /// Seed of the initial values and of the order of the data
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Address of the job's master
    #[arg(long, value_name = "HOST:PORT", env = env::MASTER.name)]
    pub master: String,
    /// Name of this worker in the job
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub name: String,
    /// File with the job's token
    #[arg(long, value_name = "FILE", env = env::TOKEN_FILE.name)]
    pub token_file: Option<PathBuf>,
}

/// Trains until all records of all epochs are accounted for.
pub fn run(args: &WorkerArgs) -> anyhow::Result<Exit> {
    logging::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let trained = runtime.block_on(work(args));
    runtime.shutdown_timeout(Duration::from_secs(1));
    trained
}

async fn work(args: &WorkerArgs) -> anyhow::Result<Exit> {
    let mut termination = signals::terminated()?;
    let plan = TrainingPlan {
        optimizer: args.optimizer.unwrap_or_else(|| args.model.default_optimizer()),
        architecture: args.model.clone(),
        seed: args.seed,
        data: args.data.clone(),
        test_data: args.test_data.clone(),
        schema: args.schema.clone(),
        csv_header: header(args.no_header),
        on_damage: args.damaged.into(),
        batch: args.batch,
        batch_delay: args.batch_delay,
        epochs: args.epochs,
        evaluations: args.evaluate_every.map(|every| EvaluationSchedule {
            every,
            memory: bytes(args.evaluation_memory),
            checkpoint: bytes(args.evaluation_checkpoint),
        }),
        by_staleness: args.lr_staleness_modulation,
        non_finite: if args.skip_non_finite { NonFinite::Skip } else { NonFinite::Refuse },
        steps: args.grads_to_wait.map(|batches| SyncSteps { batches, tolerance: args.staleness_tolerance }),
    };
    let context = WorkerContext {
        worker: WorkerName { name: args.name.clone(), incarnation: ps::new_incarnation()? },
        master: args.master.clone(),
        token: args.token_file.as_deref().map(flexor_client::token_file::read).transpose().context("--token-file")?,
        dialer: Dialer::default(),
    };
    if !args.batch_delay.is_zero() {
        output::note(&format!("every batch waits {:?} for its data (--batch-delay)", args.batch_delay));
    }
    tokio::select! {
        exit = termination.wait() => Ok(exit),
        trained = train(&plan, &context, print_event) => match trained {
            Ok(outcome) => {
                print_outcome(&outcome)?;
                Ok(Exit::Success)
            }
            Err(error) => {
                output::note(&format!("error: {error}"));
                Ok(exit_of(&error, args.schema.is_some()))
            }
        },
    }
}

/// [`Exit::Hopeless`] where a restart cannot help: the job's model and a given schema do not change. A detected schema may
/// differ once the files are complete.
fn exit_of(error: &TrainingError, schema_was_given: bool) -> Exit {
    let is_schema_wrong = match error {
        TrainingError::Inputs(_) | TrainingError::Schema(_) => true,
        TrainingError::Read(why) => matches!(why, ReadError::AllRecords { .. }),
        TrainingError::TestData { why, .. } => matches!(**why, ReadError::AllRecords { .. }),
        _ => false,
    };
    match error {
        TrainingError::OtherModel { .. } => Exit::Hopeless,
        _ if is_schema_wrong && schema_was_given => Exit::Hopeless,
        TrainingError::Read(_)
        | TrainingError::TestData { .. }
        | TrainingError::Scoring(_)
        | TrainingError::Inputs(_)
        | TrainingError::Schema(_)
        | TrainingError::OtherData { .. }
        | TrainingError::Register { .. }
        | TrainingError::Servers(_) => Exit::Failure,
        TrainingError::Ledger(_) => Exit::Infrastructure,
    }
}

/// Ignores write errors: output without a reader is no reason to stop training.
fn print_event(event: TrainingEvent<'_>) {
    match event {
        TrainingEvent::Progress(progress) => print_progress(progress),
        TrainingEvent::Evaluated(evaluation) => print_evaluation(evaluation),
    }
}

fn print_evaluation(evaluation: &EvaluationResult) {
    let EvaluationResult { records, outcome, checkpoint } = evaluation;
    let on = checkpoint.map(|number| format!(" on checkpoint {number}")).unwrap_or_default();
    let result = match outcome {
        Ok(of) => format!("{on}: {} records{}", of.records, measured(of.loss, of.auc, of.accuracy)),
        Err(why) => format!(" skipped: {}", output::on_one_line(why)),
    };
    let _ = output::text(&format!("evaluation after {records} records{result}\n"));
}

fn print_progress(progress: &ProgressReport) {
    let ProgressReport { steps, records, records_per_second, .. } = progress;
    let measured = measured(progress.loss, progress.auc, progress.accuracy);
    let _ = output::text(&format!("step {steps}, {records} records, {records_per_second:.0} records/s{measured}\n"));
}

fn print_outcome(outcome: &TrainingOutcome) -> anyhow::Result<()> {
    let TrainingOutcome { steps, records, damaged, applied_before, test } = outcome;
    let damaged = if *damaged > 0 { format!(", {damaged} of them damaged and skipped") } else { String::new() };
    let done = format!(
        "done: {steps} steps, {records} records accounted for{damaged}, {applied_before} parts already applied\n"
    );
    output::text(&done)?;
    if let Some(TestResult { records, loss, auc, accuracy }) = test {
        output::text(&format!("test: {records} records{}\n", measured(*loss, *auc, *accuracy)))?;
    }
    Ok(())
}

/// Reads a time such as `30ms` or `1s`, of at most a minute.
fn delay(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        _ => return Err("write a number with its unit, as in 30ms or 1s".to_owned()),
    };
    let time = number.parse().ok().and_then(|number| unit.checked_mul(number));
    time.filter(|time| *time <= Duration::from_secs(60)).ok_or_else(|| "at most 60s".to_owned())
}

/// The bytes of a size, rounded up.
fn bytes(size: Quantity) -> u64 {
    u64::try_from(size.ceil()).unwrap_or(0)
}

/// Metrics as a suffix of a line, such as `, loss 0.4, AUC 0.79`.
pub(crate) fn measured(loss: Option<f64>, auc: Option<f64>, accuracy: Option<f64>) -> String {
    let numbers = [("loss", loss), ("AUC", auc), ("accuracy", accuracy)];
    numbers.into_iter().filter_map(|(name, value)| Some(format!(", {name} {:.4}", value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_has_a_unit_and_a_bound() {
        assert_eq!(delay("30ms"), Ok(Duration::from_millis(30)));
        assert_eq!(delay("2s"), Ok(Duration::from_secs(2)));
        for refused in ["30", "ms", "-1ms", "61s", "1h", "99999999999999999999ms", "4294967296s"] {
            assert!(delay(refused).is_err(), "{refused}");
        }
    }
}
