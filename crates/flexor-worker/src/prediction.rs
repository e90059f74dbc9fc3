//! Predicts records with a checkpoint, without servers or a master.
//!
//! The output has one line per record: its number, its label, and the probability of a yes or of its class.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use flexor_data::{CsvHeader, Damage, Dataset, OnDamage, Options};
use flexor_ps::checkpoint::{CheckpointError, CheckpointId, SavedModel};
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::batch_reader::ReadError;
use crate::features::{Schema, SchemaError};
use crate::kernels::{probability, softmax};
use crate::metrics::{Metrics, highest};
use crate::models::{Architecture, Task, UnfitInputs};
use crate::scorer::{ParameterSource, ScoredRecords, Scorer, ScoringError};
use crate::trainer::TestResult;

/// The configuration of a prediction.
#[derive(Debug, Clone)]
pub struct PredictionPlan {
    /// The trained model.
    pub architecture: Architecture,
    /// The folder of its checkpoints.
    pub checkpoints: PathBuf,
    /// `None`: the latest checkpoint.
    pub number: Option<u64>,
    /// Files, or folders of files.
    pub data: Vec<PathBuf>,
    /// `None`: detected from the data.
    pub schema: Option<Schema>,
    pub csv_header: CsvHeader,
    /// Whether damaged records, and those that cannot be parsed, are skipped or an error.
    pub on_damage: OnDamage,
    /// Records per batch.
    pub batch: u32,
}

/// The result of a prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictionSummary {
    pub checkpoint: u64,
    /// The scores of the predictions against the labels.
    pub scores: TestResult,
    pub skipped_records: u64,
    /// Damaged parts of the files.
    pub damage: Vec<Damage>,
}

/// Why a prediction failed.
#[derive(Debug, Error)]
pub enum PredictionError {
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The schema is unknown.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    Inputs(#[from] UnfitInputs),
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint belongs to another model.
    #[error(
        "checkpoint {checkpoint} belongs to another model: {why}; give --model and --schema as they were when it was trained"
    )]
    OtherModel { checkpoint: u64, why: String },
    #[error(transparent)]
    Scoring(#[from] ScoringError),
    #[error("the predictions cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Predicts all records, and writes one line of CSV for each.
pub async fn predict(plan: &PredictionPlan, out: &mut dyn Write) -> Result<PredictionSummary, PredictionError> {
    let PredictionPlan { csv_header, on_damage, .. } = *plan;
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
    let give = |ScoredRecords { records, scores, labels }: ScoredRecords<'_>| {
        board.add(scores, labels);
        for ((number, scores), label) in records.iter().zip(scores.chunks_exact(task.scores())).zip(labels) {
            if written.is_ok() {
                written = line(out, task, *number, *label, scores);
            }
        }
    };
    let skipped_records = scorer.score(&mut ParameterSource::Saved(&saved), &permits, give).await?;
    written?;
    out.flush()?;
    let scores =
        TestResult { records: board.records(), loss: board.loss(), auc: board.auc(), accuracy: board.accuracy() };
    Ok(PredictionSummary { checkpoint: saved.id().0, scores, skipped_records, damage: dataset.damage() })
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
