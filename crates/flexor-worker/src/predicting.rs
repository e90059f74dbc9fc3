//! Prediction: what a trained model says of records, out of a checkpoint, without servers or a master.
//!
//! A record's line has its number, its label as the data has it, and how likely the model takes it: a yes, or its class.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use flexor_data::{CsvHeader, Damage, Dataset, OnDamage, Options};
use flexor_ps::checkpoint::{CheckpointError, CheckpointId, SavedModel};
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::features::{Schema, SchemaError};
use crate::kernels::{probability, softmax};
use crate::metrics::{Metrics, highest};
use crate::models::{Architecture, Task, UnfitInputs};
use crate::reading::ReadError;
use crate::scoring::{Scored, Scorer, ScoringError, Values};
use crate::training::TestResult;

/// What is predicted, and with what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The model that was trained.
    pub architecture: Architecture,
    /// Where its checkpoints lie.
    pub checkpoints: PathBuf,
    /// Which of them; the latest where nothing is said.
    pub number: Option<u64>,
    /// Where the records are.
    pub data: Vec<PathBuf>,
    /// What a record means; found out where nothing is said.
    pub schema: Option<Schema>,
    /// Whether tables begin with the names of their columns.
    pub csv_header: CsvHeader,
    /// What becomes of damaged records, and of those that mean nothing.
    pub on_damage: OnDamage,
    /// Records at a time.
    pub batch: u32,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// The checkpoint.
    pub checkpoint: u64,
    /// How well the predictions fit the labels of the data.
    pub fit: TestResult,
    /// How many records were left out.
    pub left_out: u64,
    /// The parts of files that are damaged.
    pub damage: Vec<Damage>,
}

/// Why nothing can be predicted.
#[derive(Debug, Error)]
pub enum PredictionError {
    /// The data cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nobody knows what the records mean.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The records do not fit the model.
    #[error(transparent)]
    Inputs(#[from] UnfitInputs),
    /// There is no such model.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint is of another model.
    #[error(
        "checkpoint {checkpoint} is of another model: {why}; give --model and --schema as they were when it was trained"
    )]
    OtherModel {
        /// Which checkpoint.
        checkpoint: u64,
        /// What is different.
        why: String,
    },
    /// Records cannot be scored.
    #[error(transparent)]
    Scoring(#[from] ScoringError),
    /// The predictions cannot be written.
    #[error("the predictions cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Predicts all records, and writes a line of CSV for each.
pub async fn predict(plan: &Plan, out: &mut dyn Write) -> Result<Predicted, PredictionError> {
    let Plan { csv_header, on_damage, .. } = *plan;
    let options = Options { csv_header, on_damage, ..Options::default() };
    let dataset = Arc::new(Dataset::open(&plan.data, &options).map_err(ReadError::from)?);
    let named = plan.data.first().map(|path| path.display().to_string()).unwrap_or_default();
    let schema = Schema::of_dataset::<PredictionError>(plan.schema.as_ref(), &dataset, &named)?;
    let mut scorer = Scorer::new(Arc::clone(&dataset), &schema, &plan.architecture, plan.batch)?;
    let saved = SavedModel::open(&plan.checkpoints, plan.number.map(CheckpointId), u64::MAX)?;
    check_model(&scorer, &saved)?;

    let task = scorer.task();
    writeln!(out, "{}", heading(task))?;
    let mut board = Metrics::new(task);
    let mut written = Ok(());
    let permits = Semaphore::new(1);
    let give = |Scored { records, scores, labels }: Scored<'_>| {
        board.add(scores, labels);
        for ((number, scores), label) in records.iter().zip(scores.chunks_exact(task.scores())).zip(labels) {
            if written.is_ok() {
                written = line(out, task, *number, *label, scores);
            }
        }
    };
    let left_out = scorer.score(&mut Values::Saved(&saved), &permits, give).await?;
    written?;
    out.flush()?;
    let fit = TestResult { records: board.records(), loss: board.loss(), auc: board.auc(), accuracy: board.accuracy() };
    Ok(Predicted { checkpoint: saved.id().0, fit, left_out, damage: dataset.damage() })
}

fn check_model(scorer: &Scorer, saved: &SavedModel) -> Result<(), PredictionError> {
    let (declared, spec) = (scorer.declaration(), saved.spec());
    let other = |why: String| Err(PredictionError::OtherModel { checkpoint: saved.id().0, why });
    let variables = |all: &[flexor_ps::spec::VariableSpec]| {
        all.iter().map(|one| format!("{} {:?}", one.name, one.shape)).collect::<Vec<_>>()
    };
    let tables = |all: &[flexor_ps::spec::TableSpec]| {
        all.iter().map(|one| format!("{} [{}]", one.name, one.dim)).collect::<Vec<_>>()
    };
    let wanted = [variables(&declared.variables), tables(&declared.tables)].concat();
    let found = [variables(&spec.variables), tables(&spec.tables)].concat();
    match wanted == found {
        true => Ok(()),
        false => other(format!("it has {} and not {}", found.join(", "), wanted.join(", "))),
    }
}

fn heading(task: Task) -> &'static str {
    match task {
        Task::YesNo => "record,label,probability",
        Task::OneOf { .. } => "record,label,class,probability",
    }
}

fn line(out: &mut dyn Write, task: Task, number: u64, label: u32, scores: &[f32]) -> io::Result<()> {
    match task {
        Task::YesNo => writeln!(out, "{number},{label},{:.6}", probability(scores[0])),
        Task::OneOf { .. } => {
            let (class, mut likely) = (highest(scores), scores.to_vec());
            softmax(&mut likely);
            writeln!(out, "{number},{label},{class},{:.6}", likely[class])
        }
    }
}
