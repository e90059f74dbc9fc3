//! The training loop of a worker: batches are leased, read, and their values pulled ([`preparing`]) while the one before is
//! computed; gradients are pushed, and only then is a batch acknowledged ([`learner`]). When all is learnt the model is
//! saved and measured.
//!
//! A worker that dies between push and acknowledgement costs a batch that is computed again: the servers know that they
//! have applied it.

mod evaluating;
mod learner;
mod other_model;
mod preparing;
mod telling;
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

pub use self::evaluating::{Evaluated, Evaluations};
use self::evaluating::{Evaluator, Running, measure};
use self::learner::Learner;
use self::preparing::{Preparing, Reading};
use crate::Batch;
use crate::features::{Features, Schema, SchemaError};
use crate::ledger::{Ledger, LedgerError, WorkerName};
use crate::metrics::Metrics;
use crate::models::{Architecture, Gradients, Model, UnfitInputs};
use crate::reading::ReadError;
use crate::scoring::{Scorer, ScoringError, Values};

/// How often a worker says how it stands.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// What is trained, and on what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The model.
    pub architecture: Architecture,
    /// How it learns.
    pub optimizer: Optimizer,
    /// From which its initial values follow, and the order of the data.
    pub seed: u64,
    /// Where the records are.
    pub data: Vec<PathBuf>,
    /// Records to measure the model on when everything is learnt; none where nobody asks.
    pub test_data: Vec<PathBuf>,
    /// What a record means; found out where nothing is said.
    pub schema: Option<Schema>,
    /// Whether tables begin with the names of their columns.
    pub csv_header: CsvHeader,
    /// What becomes of records that cannot be read.
    pub on_damage: OnDamage,
    /// Records of a batch.
    pub batch: u32,
    /// How often the data is gone through.
    pub epochs: u32,
    /// What becomes of gradients that are not finite.
    pub non_finite: NonFinite,
    /// When the model is measured on the test data while it is trained; none: only when everything is learnt.
    pub evaluations: Option<Evaluations>,
    /// Updates that others have overtaken count the less the more of them there were.
    pub by_staleness: bool,
    /// How many batches are learnt together; none: each by itself, as it comes.
    pub steps: Option<Steps>,
}

/// Synchronous training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// How many batches make a step.
    pub batches: u32,
    /// How many steps old the values may be that a batch is computed with.
    pub tolerance: u32,
}

/// Who a worker is, and whom it works with.
#[derive(Debug, Clone)]
pub struct Place {
    /// Who it is.
    pub worker: WorkerName,
    /// Where its master is.
    pub master: String,
    /// The job's token.
    pub token: Option<Token>,
    /// How it connects to them.
    pub dialer: Dialer,
}

impl Place {
    /// A client of the job's servers.
    async fn client(&self, spec: &ModelSpec) -> Result<Client, ClientError> {
        Client::with_dialer(&self.master, self.token.clone(), spec.clone(), self.dialer.clone()).await
    }
}

/// What can be done about records that mean nothing, besides mending them.
fn advice(why: &ReadError) -> &'static str {
    match why {
        ReadError::Record { .. } => "; or leave such records out with --damaged skip",
        ReadError::Data(_) | ReadError::NoRecords(_) | ReadError::AllRecords { .. } => "",
    }
}

/// Why a worker cannot go on.
#[derive(Debug, Error)]
pub enum TrainingError {
    /// The data cannot be read.
    #[error("{}{}", .0, advice(.0))]
    Read(#[from] ReadError),
    /// The test data is of another kind.
    #[error("the test data {data} cannot be used: {why}")]
    TestData {
        /// Where it is.
        data: String,
        /// What is wrong with it.
        why: Box<ReadError>,
    },
    /// Records cannot be scored.
    #[error(transparent)]
    Scoring(#[from] ScoringError),
    /// The records do not fit the model.
    #[error(transparent)]
    Inputs(#[from] UnfitInputs),
    /// The job trains another model.
    #[error(
        "ModelDiffers: the job trains another model: {differences}; go on with the model that it has, or begin another job \
         in another folder for checkpoints"
    )]
    OtherModel {
        /// What is different.
        differences: String,
    },
    /// The parameter servers refuse something.
    #[error(transparent)]
    Servers(#[from] ClientError),
    /// The master refuses something.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The job has other data.
    #[error("{data} cannot be trained on: {why}")]
    Register {
        /// Where it is.
        data: String,
        /// What the master says.
        why: LedgerError,
    },
    /// The job has other data, or goes through it more often or less.
    #[error(
        "{data} cannot be trained on: {what}; begin another job, in another folder for checkpoints if there is one \
         (`flexor checkpoint convert` takes what was learnt along)"
    )]
    OtherData {
        /// Where it is.
        data: String,
        /// What is different.
        what: String,
    },
    /// Nobody knows what the records mean.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// How training stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Steps of this worker.
    pub steps: u64,
    /// Records of this worker.
    pub records: u64,
    /// How many records were scored since it was told last.
    pub measured: u64,
    /// The mean loss of these.
    pub loss: Option<f64>,
    /// How well it did since then, where that is measured.
    pub auc: Option<f64>,
    /// The share of records that were right since then.
    pub accuracy: Option<f64>,
    /// Records per second since then.
    pub records_per_second: f64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Steps of this worker.
    pub steps: u64,
    /// Records of this worker that were accounted for.
    pub records: u64,
    /// How many of these are damaged or mean nothing, and were left out of their batches.
    pub damaged: u64,
    /// Parts of updates that were on a server before, from a batch that was computed again.
    pub applied_before: u64,
    /// How well the model does on other data, where some was given.
    pub test: Option<TestResult>,
}

/// How well a model does on data it was not trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestResult {
    /// How many records.
    pub records: u64,
    /// The mean loss.
    pub loss: Option<f64>,
    /// The area under the curve, for yes or no.
    pub auc: Option<f64>,
    /// The share that was right.
    pub accuracy: Option<f64>,
}

/// What is told while it trains.
#[derive(Debug, Clone, Copy)]
pub enum Told<'a> {
    /// How it stands.
    Standing(&'a Standing),
    /// The model was measured on other data, by this worker.
    Evaluated(&'a Evaluated),
}

/// Trains until all data is learnt. `tell` hears how it stands, now and then.
pub async fn train(plan: &Plan, place: &Place, mut tell: impl FnMut(Told<'_>)) -> Result<Outcome, TrainingError> {
    let options = Options { on_damage: plan.on_damage, csv_header: plan.csv_header, ..Options::default() };
    let dataset = opened(&plan.data, &options)?;
    // Better to know now that it cannot be read than when everything is learnt.
    let test = match &plan.test_data[..] {
        [] => None,
        paths => Some(opened(paths, &options)?),
    };
    let schema = schema_of(plan, &dataset)?;
    let features = Features::new(&schema);
    let model = plan.architecture.build(features.inputs())?;
    let scorer = |data: &Arc<Dataset>| Scorer::new(data.clone(), &schema, &plan.architecture, plan.batch);
    if let Some(test) = &test {
        Schema::of_dataset::<TrainingError>(Some(&schema), test, &named(&plan.test_data))?;
        let tried = scorer(test)?.try_first();
        tried.map_err(|why| TrainingError::TestData { data: named(&plan.test_data), why: Box::new(why) })?;
    }
    let spec = model.declaration().with(plan.optimizer, plan.seed);
    let ledger = Ledger::with_dialer(&place.master, place.token.clone(), place.worker.clone(), &place.dialer)?;
    let ledger = Arc::new(ledger);
    let registered = ledger.register(registration(plan, &dataset)).await;
    registered.map_err(|why| not_registered(named(&plan.data), why))?;
    let puller = match place.client(&spec).await {
        Ok(puller) => puller,
        Err(declined) => return Err(other_model::explained(declined, place, &spec).await),
    };
    let pusher = place.client(&spec).await?;
    // One thread computes, whatever for.
    let permits = Arc::new(Semaphore::new(1));
    let mut evaluating = match (&test, plan.evaluations) {
        (Some(test), Some(when)) => {
            let client = place.client(&spec).await?;
            let (scorer, ledger, permits) = (scorer(test)?, ledger.clone(), permits.clone());
            Some(Running::start(Evaluator { when, scorer, client, spec, ledger, permits }))
        }
        _ => None,
    };

    let (looker, inputs) = (plan.architecture.build(features.inputs())?, features.inputs());
    let (batch, size, steps, by_version) = (Batch::new(inputs), plan.batch, plan.steps, plan.by_staleness);
    let reading = Reading { dataset: dataset.clone(), features, looker, batch, size, steps, by_version };
    let mut preparing = Preparing { reading, client: puller, ledger: ledger.clone() };
    let mut learner = Learner {
        plan,
        progress: Progress::new(model.as_ref()),
        model,
        gradients: Gradients::default(),
        pusher,
        ledger: ledger.clone(),
        permits: permits.clone(),
        outcome: Outcome::default(),
    };
    loop {
        preparing = learner.learn(preparing, evaluating.as_mut(), &mut tell).await?;
        // A server that is lost takes everybody back where training goes in steps, even now.
        let mut is_done = learner.pusher.save().await?;
        if is_done {
            if let Some(test) = &test {
                let measured = measure(&mut scorer(test)?, &mut Values::Servers(&mut learner.pusher), &permits).await?;
                ledger.report(telling::test(&measured)).await?;
                learner.outcome.test = Some(measured);
            }
            is_done = ledger.is_finished(DATASET).await?;
        }
        if is_done {
            break;
        }
        tracing::warn!("everybody has gone back after the last batch, and learns what was learnt since again");
    }
    if let Some(evaluating) = evaluating {
        for evaluated in evaluating.finish().await {
            tell(Told::Evaluated(&evaluated));
        }
    }
    for damage in dataset.damage() {
        tracing::warn!(%damage, "records are left out");
    }
    Ok(learner.outcome)
}

/// Data that has records.
fn opened(data: &[PathBuf], options: &Options) -> Result<Arc<Dataset>, ReadError> {
    let dataset = Dataset::open(data, options)?;
    match dataset.first()? {
        Some(_) => Ok(Arc::new(dataset)),
        None => Err(ReadError::NoRecords(named(data))),
    }
}

fn not_registered(data: String, why: LedgerError) -> TrainingError {
    match why {
        LedgerError::Refused { reason: reason @ Reason::DatasetChanged, detail } => {
            // What follows is advice for who chooses the name.
            let what = detail.split(';').next().unwrap_or_default();
            TrainingError::OtherData { data, what: format!("{reason}: {what}") }
        }
        // That has nothing to do with the data.
        why @ LedgerError::Declined(_) => TrainingError::Ledger(why),
        why => TrainingError::Register { data, why },
    }
}

fn schema_of(plan: &Plan, dataset: &Dataset) -> Result<Schema, TrainingError> {
    Schema::of_dataset(plan.schema.as_ref(), dataset, &named(&plan.data))
}

/// Data, in a word.
fn named(data: &[PathBuf]) -> String {
    match data {
        [] => String::new(),
        [one] => one.display().to_string(),
        [first, others @ ..] => format!("{} and {} more", first.display(), others.len()),
    }
}

fn registration(plan: &Plan, dataset: &Dataset) -> wire::Dataset {
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

/// What the training data is called in the job.
pub const DATASET: &str = "training";

/// What is told now and then.
struct Progress {
    board: Metrics,
    empty: Metrics,
    since: Instant,
    steps: u64,
    records: u64,
}

impl Progress {
    fn new(model: &dyn Model) -> Self {
        let board = Metrics::new(model.task());
        Self { empty: board.clone(), board, since: Instant::now(), steps: 0, records: 0 }
    }

    /// A step was taken; how it stands, if it is time to tell.
    fn step(&mut self, batch: &Batch, gradients: &Gradients) -> Option<Standing> {
        self.board.add(&gradients.scores, batch.labels());
        self.steps += 1;
        self.records += batch.len() as u64;
        (self.since.elapsed() >= TELL_EVERY).then(|| self.tell())
    }

    /// What was not told yet.
    fn rest(&mut self) -> Option<Standing> {
        (self.board.records() > 0).then(|| self.tell())
    }

    fn tell(&mut self) -> Standing {
        let seconds = self.since.elapsed().as_secs_f64().max(1e-9);
        let board = std::mem::replace(&mut self.board, self.empty.clone());
        self.since = Instant::now();
        Standing {
            steps: self.steps,
            records: self.records,
            measured: board.records(),
            loss: board.loss(),
            auc: board.auc(),
            accuracy: board.accuracy(),
            records_per_second: board.records() as f64 / seconds,
        }
    }
}
