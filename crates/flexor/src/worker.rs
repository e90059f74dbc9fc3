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
use crate::{logging, master, output, ps, signals};

/// What `flexor worker` takes.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// The model: logistic, wide-deep, deepfm or mlp, with options as in deepfm:dim=8,hidden=64x32
    #[arg(long, value_name = "MODEL")]
    pub model: Architecture,
    /// The data: files, or folders of files
    #[arg(long, required = true, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// Data to measure the model on when all is learnt
    #[arg(long, value_name = "PATH")]
    pub test_data: Vec<PathBuf>,
    /// What a record means: clicks:numbers=N,fields=M (a label, N numbers, M categories; with ,scale=log numbers count by
    /// their logarithm), census or digits; found out for tables with a header, RecordIO with named features and IDX files
    #[arg(long, value_name = "SCHEMA")]
    pub schema: Option<Schema>,
    /// The first line of tables is a record and does not name the columns
    #[arg(long)]
    pub no_header: bool,
    /// What becomes of damaged records: the worker fails, or they are left out of their batches and counted
    #[arg(long, value_name = "WHAT", value_enum, default_value = "fail")]
    pub damaged: Damaged,
    /// How it learns, as in sgd:learning_rate=0.1; by default what does well for the model
    #[arg(long, value_name = "OPTIMIZER", value_parser = read_optimizer)]
    pub optimizer: Option<Optimizer>,
    /// Records of a batch
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub batch: u32,
    /// How often the data is gone through
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub epochs: u32,
    /// Leave rows out whose gradients are not finite, and count them; without it such a batch fails the worker
    #[arg(long)]
    pub leave_out_non_finite: bool,
    /// Learn so many batches together, in steps: the result does not depend on which worker computes what, or when.
    /// Without it each batch is learnt by itself, as it comes
    #[arg(long, value_name = "BATCHES", value_parser = clap::value_parser!(u32).range(1..))]
    pub grads_to_wait: Option<u32>,
    /// In steps: how many steps old the values may be that a batch is computed with. With 0 nobody computes for the next
    /// step before this one is taken
    #[arg(long, value_name = "STEPS", default_value_t = 0, requires = "grads_to_wait")]
    pub staleness_tolerance: u32,
    /// Measure the model on --test-data after every so many records, while training goes on; one worker does it at a time
    #[arg(long, value_name = "RECORDS", requires = "test_data", value_parser = clap::value_parser!(u64).range(1..))]
    pub evaluate_every: Option<u64>,
    /// For that, how many bytes of the model a server may keep aside as they were; over it the last checkpoint is
    /// measured, where there is one
    #[arg(long, value_name = "BYTES", default_value = "256Mi", requires = "evaluate_every", value_parser = amount)]
    pub evaluation_memory: Quantity,
    /// How large a checkpoint may be that is read into this worker's memory for that; over it nothing is measured
    #[arg(long, value_name = "BYTES", default_value = "2Gi", requires = "evaluate_every", value_parser = amount)]
    pub evaluation_checkpoint: Quantity,
    /// Divide the learning rate of an update by how many others came between, since its values were pulled
    #[arg(long, conflicts_with = "grads_to_wait")]
    pub lr_staleness_modulation: bool,
    /// From which initial values and the order of the data follow
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Where the job's master is
    #[arg(long, value_name = "HOST:PORT", env = env::MASTER.name)]
    pub master: String,
    /// Its name in the job
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub name: String,
    /// A file with the job's token
    #[arg(long, value_name = "FILE", env = env::TOKEN_FILE.name)]
    pub token_file: Option<PathBuf>,
}

/// Trains until all data is learnt.
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
        epochs: args.epochs,
        evaluations: args.evaluate_every.map(|every| EvaluationSchedule {
            every,
            memory: bytes(args.evaluation_memory),
            checkpoint: bytes(args.evaluation_checkpoint),
        }),
        by_staleness: args.lr_staleness_modulation,
        non_finite: if args.leave_out_non_finite { NonFinite::Skip } else { NonFinite::Refuse },
        steps: args.grads_to_wait.map(|batches| SyncSteps { batches, tolerance: args.staleness_tolerance }),
    };
    let place = WorkerContext {
        worker: WorkerName { name: args.name.clone(), incarnation: ps::this_life()? },
        master: args.master.clone(),
        token: args.token_file.as_deref().map(master::read_token).transpose().context("--token-file")?,
        dialer: Dialer::default(),
    };
    tokio::select! {
        exit = termination.wait() => Ok(exit),
        trained = train(&plan, &place, tell) => match trained {
            Ok(outcome) => {
                tell_end(&outcome)?;
                Ok(Exit::Success)
            }
            Err(error) => {
                output::note(&format!("error: {error}"));
                Ok(exit_of(&error, args.schema.is_some()))
            }
        },
    }
}

/// Whether trying again may help. The model that the job has stays what it is, and so does a schema that was given; what
/// was found out from files may be another when they are whole.
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

/// What is told goes nowhere only when nobody reads it any more, which is no reason to stop.
fn tell(told: TrainingEvent<'_>) {
    match told {
        TrainingEvent::Progress(standing) => tell_standing(standing),
        TrainingEvent::Evaluated(evaluated) => tell_evaluated(evaluated),
    }
}

fn tell_evaluated(evaluated: &EvaluationResult) {
    let EvaluationResult { records, outcome, checkpoint } = evaluated;
    let on = checkpoint.map(|number| format!(" on checkpoint {number}")).unwrap_or_default();
    let came = match outcome {
        Ok(of) => format!("{on}: {} records{}", of.records, measured(of.loss, of.auc, of.accuracy)),
        Err(why) => format!(" skipped: {}", output::on_one_line(why)),
    };
    let _ = output::text(&format!("evaluation after {records} records{came}\n"));
}

fn tell_standing(standing: &ProgressReport) {
    let ProgressReport { steps, records, records_per_second, .. } = standing;
    let measured = measured(standing.loss, standing.auc, standing.accuracy);
    let _ = output::text(&format!("step {steps}, {records} records, {records_per_second:.0} records/s{measured}\n"));
}

fn tell_end(outcome: &TrainingOutcome) -> anyhow::Result<()> {
    let TrainingOutcome { steps, records, damaged, applied_before, test } = outcome;
    let damaged = if *damaged > 0 { format!(", {damaged} of them damaged and left out") } else { String::new() };
    let done = format!(
        "done: {steps} steps, {records} records accounted for{damaged}, {applied_before} parts applied before\n"
    );
    output::text(&done)?;
    if let Some(TestResult { records, loss, auc, accuracy }) = test {
        output::text(&format!("test: {records} records{}\n", measured(*loss, *auc, *accuracy)))?;
    }
    Ok(())
}

/// A size is a whole number of bytes, and not negative.
fn bytes(size: Quantity) -> u64 {
    u64::try_from(size.ceil()).unwrap_or(0)
}

pub(crate) fn measured(loss: Option<f64>, auc: Option<f64>, accuracy: Option<f64>) -> String {
    let numbers = [("loss", loss), ("AUC", auc), ("accuracy", accuracy)];
    numbers.into_iter().filter_map(|(name, value)| Some(format!(", {name} {:.4}", value?))).collect()
}
