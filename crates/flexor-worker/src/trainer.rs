//! The training loop of a worker.
//!
//! [`batch_prefetcher`] leases and reads the next batch and pulls its parameters while the [`learner`] computes the
//! current one. The learner pushes the gradients and only then acknowledges the batch. When no batch is left, the model
//! is saved and evaluated.
//!
//! A worker that dies between push and acknowledgement leaves a batch that is computed again. The servers recognise it
//! and do not apply it twice.

mod batch_prefetcher;
mod evaluator;
mod learner;
mod load_counters;
mod model_mismatch;
mod progress_reporter;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flexor_data::{CsvHeader, Dataset, OnDamage, Options};
use flexor_model::Reason;
use flexor_ps::client::{Client, ClientError};
use flexor_ps::dial::Dialer;
use flexor_ps::push::NonFinite;
use flexor_ps::spec::{ModelSpec, Optimizer};
use flexor_wire::Token;
use flexor_wire::master::v1 as wire;
use thiserror::Error;
use tokio::sync::Semaphore;

use self::batch_prefetcher::{BatchLoader, BatchPrefetcher};
pub use self::evaluator::{EvaluationResult, EvaluationSchedule};
use self::evaluator::{Evaluator, EvaluatorTask, measure};
use self::learner::Learner;
use self::load_counters::LoadCounters;
use crate::Batch;
use crate::batch_reader::ReadError;
use crate::features::{Features, Schema, SchemaError};
use crate::ledger::{LedgerClient, LedgerError, WorkerName};
use crate::metrics::Metrics;
use crate::models::{Architecture, Gradients, Model, UnfitInputs};
use crate::scorer::{ParameterSource, Scorer, ScoringError};

/// How often a worker reports its progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The configuration of a training worker.
#[derive(Debug, Clone)]
pub struct TrainingPlan {
    pub architecture: Architecture,
    pub optimizer: Optimizer,
    /// Determines the initial parameters and the order of the data.
    pub seed: u64,
    /// Files, or folders of files.
    pub data: Vec<PathBuf>,
    /// Data to evaluate the model on; may be empty.
    pub test_data: Vec<PathBuf>,
    /// `None`: detected from the data.
    pub schema: Option<Schema>,
    pub csv_header: CsvHeader,
    /// Whether damaged records are skipped or fail the worker.
    pub on_damage: OnDamage,
    /// Records per batch.
    pub batch: u32,
    /// How long the data of a batch takes to arrive, beyond reading it.
    pub batch_delay: Duration,
    pub epochs: u32,
    /// Whether rows with non-finite gradients are skipped or fail the worker.
    pub non_finite: NonFinite,
    /// Evaluations during training; `None`: only at the end.
    pub evaluations: Option<EvaluationSchedule>,
    /// Scales an update down the more versions it is behind.
    pub by_staleness: bool,
    /// Set for synchronous training.
    pub steps: Option<SyncSteps>,
}

/// The parameters of synchronous training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncSteps {
    /// Batches per step.
    pub batches: u32,
    /// How many steps behind the pulled parameters may be.
    pub tolerance: u32,
}

/// The worker's identity and its connections.
#[derive(Debug, Clone)]
pub struct WorkerContext {
    pub worker: WorkerName,
    pub master: String,
    pub token: Option<Token>,
    pub dialer: Dialer,
}

impl WorkerContext {
    async fn client(&self, spec: &ModelSpec) -> Result<Client, ClientError> {
        Client::with_dialer(&self.master, self.token.clone(), spec.clone(), self.dialer.clone()).await
    }
}

/// Advice for records that cannot be parsed.
fn advice(why: &ReadError) -> &'static str {
    match why {
        ReadError::Record { .. } => "; or skip such records with --damaged skip",
        ReadError::Data(_) | ReadError::NoRecords(_) | ReadError::AllRecords { .. } => "",
    }
}

/// Why a worker fails.
#[derive(Debug, Error)]
pub enum TrainingError {
    #[error("{}{}", .0, advice(.0))]
    Read(#[from] ReadError),
    /// The test data does not match the schema.
    #[error("the test data {data} cannot be used: {why}")]
    TestData { data: String, why: Box<ReadError> },
    #[error(transparent)]
    Scoring(#[from] ScoringError),
    #[error(transparent)]
    Inputs(#[from] UnfitInputs),
    #[error(
        "ModelDiffers: the job trains another model: {differences}; go on with the model that it has, or begin another job \
         in another folder for checkpoints"
    )]
    OtherModel { differences: String },
    /// The parameter servers refuse a request.
    #[error(transparent)]
    Servers(#[from] ClientError),
    /// The master refuses a request.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The master refuses the dataset.
    #[error("{data} cannot be trained on: {why}")]
    Register { data: String, why: LedgerError },
    /// The job has registered other data or another number of epochs.
    #[error(
        "{data} cannot be trained on: {what}; begin another job, in another folder for checkpoints if there is one \
         (`flexor checkpoint convert` keeps the trained parameters)"
    )]
    OtherData { data: String, what: String },
    /// The schema is unknown.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// The progress since the last report.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProgressReport {
    /// Batches that this worker has trained on.
    pub steps: u64,
    pub records: u64,
    /// Records scored since the last report.
    pub measured: u64,
    /// The mean loss since the last report.
    pub loss: Option<f64>,
    /// Since the last report; only for binary models.
    pub auc: Option<f64>,
    /// The share of correct predictions since the last report.
    pub accuracy: Option<f64>,
    pub records_per_second: f64,
}

/// The result of a training run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TrainingOutcome {
    /// Batches that this worker has trained on.
    pub steps: u64,
    /// Records that this worker's acknowledgements accounted for.
    pub records: u64,
    /// How many of `records` were skipped: damaged, or impossible to parse.
    pub damaged: u64,
    /// Parts of updates that a server had applied before, from a batch that was computed again.
    pub applied_before: u64,
    /// The scores on the test data, if there is some.
    pub test: Option<TestResult>,
}

/// The scores on data that the model was not trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestResult {
    pub records: u64,
    pub loss: Option<f64>,
    /// Only for binary models.
    pub auc: Option<f64>,
    /// The share of correct predictions.
    pub accuracy: Option<f64>,
}

/// Events during training.
#[derive(Debug, Clone, Copy)]
pub enum TrainingEvent<'a> {
    Progress(&'a ProgressReport),
    /// This worker has evaluated the model on the test data.
    Evaluated(&'a EvaluationResult),
}

/// Trains until the dataset is finished. `on_event` receives progress and evaluations.
pub async fn train(
    plan: &TrainingPlan,
    context: &WorkerContext,
    mut on_event: impl FnMut(TrainingEvent<'_>),
) -> Result<TrainingOutcome, TrainingError> {
    let options = Options { on_damage: plan.on_damage, csv_header: plan.csv_header, ..Options::default() };
    let dataset = open_dataset(&plan.data, &options)?;
    // Unreadable test data is reported now, not after the training.
    let test = match &plan.test_data[..] {
        [] => None,
        paths => Some(open_dataset(paths, &options)?),
    };
    let schema = schema_of(plan, &dataset)?;
    let features = Features::new(&schema);
    let model = plan.architecture.build(features.inputs())?;
    let scorer = |data: &Arc<Dataset>| Scorer::new(data.clone(), &schema, &plan.architecture, plan.batch);
    if let Some(test) = &test {
        Schema::of_dataset::<TrainingError>(Some(&schema), test, &describe_paths(&plan.test_data))?;
        let tried = scorer(test)?.try_first();
        tried.map_err(|why| TrainingError::TestData { data: describe_paths(&plan.test_data), why: Box::new(why) })?;
    }
    let spec = model.declaration().with(plan.optimizer, plan.seed);
    let ledger =
        LedgerClient::with_dialer(&context.master, context.token.clone(), context.worker.clone(), &context.dialer)?;
    let ledger = Arc::new(ledger);
    let registered = ledger.register(registration(plan, &dataset)).await;
    registered.map_err(|why| registration_error(describe_paths(&plan.data), why))?;
    let puller = match context.client(&spec).await {
        Ok(puller) => puller,
        Err(declined) => return Err(model_mismatch::explain(declined, context, &spec).await),
    };
    let pusher = context.client(&spec).await?;
    // Training and evaluation share one compute thread.
    let permits = Arc::new(Semaphore::new(1));
    let mut evaluator = match (&test, plan.evaluations) {
        (Some(test), Some(when)) => {
            let client = context.client(&spec).await?;
            let (scorer, ledger, permits) = (scorer(test)?, ledger.clone(), permits.clone());
            Some(EvaluatorTask::start(Evaluator { when, scorer, client, spec, ledger, permits }))
        }
        _ => None,
    };

    let (lookup_model, inputs) = (plan.architecture.build(features.inputs())?, features.inputs());
    let (batch, size, steps, by_version) = (Batch::new(inputs), plan.batch, plan.steps, plan.by_staleness);
    let (delay, load) = (plan.batch_delay, Arc::new(LoadCounters::default()));
    let loader = BatchLoader {
        dataset: dataset.clone(),
        features,
        lookup_model,
        batch,
        size,
        delay,
        steps,
        by_version,
        load: load.clone(),
    };
    let mut prefetcher = BatchPrefetcher { loader, client: puller, ledger: ledger.clone() };
    let mut learner = Learner {
        plan,
        progress: ProgressMeter::new(model.as_ref()),
        model,
        gradients: Gradients::default(),
        pusher,
        ledger: ledger.clone(),
        permits: permits.clone(),
        outcome: TrainingOutcome::default(),
        load,
    };
    loop {
        prefetcher = learner.train_all(prefetcher, evaluator.as_mut(), &mut on_event).await?;
        // In synchronous training a lost server rewinds all workers, even now.
        let mut is_done = learner.pusher.save().await?;
        if is_done {
            if let Some(test) = &test {
                let measured =
                    measure(&mut scorer(test)?, &mut ParameterSource::Servers(&mut learner.pusher), &permits).await?;
                ledger.report(progress_reporter::test_report(&measured)).await?;
                learner.outcome.test = Some(measured);
            }
            is_done = ledger.is_finished(DATASET).await?;
        }
        if is_done {
            break;
        }
        tracing::warn!("the job was rewound after the last batch; training continues");
    }
    if let Some(evaluator) = evaluator {
        for evaluated in evaluator.finish().await {
            on_event(TrainingEvent::Evaluated(&evaluated));
        }
    }
    for damage in dataset.damage() {
        tracing::warn!(%damage, "damaged records are skipped");
    }
    Ok(learner.outcome)
}

/// Opens data that must have records.
fn open_dataset(data: &[PathBuf], options: &Options) -> Result<Arc<Dataset>, ReadError> {
    let dataset = Dataset::open(data, options)?;
    match dataset.first()? {
        Some(_) => Ok(Arc::new(dataset)),
        None => Err(ReadError::NoRecords(describe_paths(data))),
    }
}

fn registration_error(data: String, why: LedgerError) -> TrainingError {
    match why {
        LedgerError::Refused { reason: reason @ Reason::DatasetChanged, detail } => {
            // The rest is advice for callers that choose the dataset's name.
            let what = detail.split(';').next().unwrap_or_default();
            TrainingError::OtherData { data, what: format!("{reason}: {what}") }
        }
        // This error is not about the data.
        why @ LedgerError::Declined(_) => TrainingError::Ledger(why),
        why => TrainingError::Register { data, why },
    }
}

fn schema_of(plan: &TrainingPlan, dataset: &Dataset) -> Result<Schema, TrainingError> {
    Schema::of_dataset(plan.schema.as_ref(), dataset, &describe_paths(&plan.data))
}

/// The paths, for messages.
fn describe_paths(data: &[PathBuf]) -> String {
    match data {
        [] => String::new(),
        [one] => one.display().to_string(),
        [first, others @ ..] => format!("{} and {} more", first.display(), others.len()),
    }
}

fn registration(plan: &TrainingPlan, dataset: &Dataset) -> wire::Dataset {
    wire::Dataset {
        name: DATASET.to_owned(),
        records: dataset.len(),
        batch: u64::from(plan.batch),
        epochs: Some(plan.epochs),
        order: wire::dataset::Order::ShuffledBatches.into(),
        seed: plan.seed,
        step_batches: plan.steps.map(|steps| u64::from(steps.batches)),
        steps_ahead: plan.steps.map_or(0, |steps| steps.tolerance),
    }
}

/// The name of the training data in the job.
pub const DATASET: &str = "training";

/// Collects metrics between progress reports.
struct ProgressMeter {
    metrics: Metrics,
    empty: Metrics,
    since: Instant,
    steps: u64,
    records: u64,
}

impl ProgressMeter {
    fn new(model: &dyn Model) -> Self {
        let metrics = Metrics::new(model.task());
        Self { empty: metrics.clone(), metrics, since: Instant::now(), steps: 0, records: 0 }
    }

    /// Adds a batch. Returns a report if one is due.
    fn step(&mut self, batch: &Batch, gradients: &Gradients) -> Option<ProgressReport> {
        self.metrics.add(&gradients.scores, batch.labels());
        self.steps += 1;
        self.records += batch.len() as u64;
        (self.since.elapsed() >= REPORT_INTERVAL).then(|| self.take_report())
    }

    /// The metrics that were not reported yet.
    fn take_remaining(&mut self) -> Option<ProgressReport> {
        (self.metrics.records() > 0).then(|| self.take_report())
    }

    fn take_report(&mut self) -> ProgressReport {
        let seconds = self.since.elapsed().as_secs_f64().max(1e-9);
        let metrics = std::mem::replace(&mut self.metrics, self.empty.clone());
        self.since = Instant::now();
        ProgressReport {
            steps: self.steps,
            records: self.records,
            measured: metrics.records(),
            loss: metrics.loss(),
            auc: metrics.auc(),
            accuracy: metrics.accuracy(),
            records_per_second: metrics.records() as f64 / seconds,
        }
    }
}
