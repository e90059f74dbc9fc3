//! `flexor checkpoint`: what lies in a folder of checkpoints, whether it is whole, a plain model out of it, and checkpoints
//! of others.

mod convert;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use flexor_data::output::{Existing, Output};
use flexor_ps::checkpoint::{Checkpoint, CheckpointError, CheckpointId, DirectoryStorage, export_plain, list};
use flexor_ps::elasticdl::LoadError;
use flexor_worker::prediction::PredictionError;
use serde::Serialize;

use self::convert::ConvertArgs;
use crate::exit::{Exit, Refused};
use crate::output::{self, Format};
use crate::signals;
use crate::verbs::Table;

/// What can be done with checkpoints.
#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// Tell which checkpoints a folder has, and with --verify whether every byte is as it was written
    #[command(
        after_help = "Examples:\n  flexor checkpoint list checkpoints\n  flexor checkpoint list checkpoints --verify -o json"
    )]
    List(ListArgs),
    /// Write what was learnt as one safetensors file, without optimizer state: for serving
    ///
    /// Variables stand under their names; of each embedding table NAME@keys and NAME@values. The metadata has the model,
    /// so that rows that nobody trained can be computed.
    #[command(
        after_help = "Examples:\n  flexor checkpoint export checkpoints model.safetensors\n  flexor checkpoint export checkpoints old.safetensors --number 12"
    )]
    Export(ExportArgs),
    /// Write a checkpoint of ElasticDL, or of another job, as one that a job begins with
    ///
    /// Parameters and optimizer state are taken over, with which a job goes on if it trains the same model. Which data was
    /// learnt is not: the job goes through its own from the beginning.
    #[command(
        after_help = "Examples:\n  flexor checkpoint convert /checkpoints/version-4000 checkpoints\n  flexor checkpoint convert /elasticdl checkpoints --opt-type SGD --opt-args 'learning_rate=0.1;momentum=0.0;nesterov=False'"
    )]
    Convert(ConvertArgs),
}

/// What `flexor checkpoint list` takes.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The folder, as in spec.flexor.checkpoints.folder
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Read every byte and compare checksums
    #[arg(long)]
    pub verify: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// What `flexor checkpoint export` takes.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The folder, as in spec.flexor.checkpoints.folder
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// The file to write; one that is there is replaced when the new one is whole
    #[arg(value_name = "FILE")]
    pub out: PathBuf,
    /// Which checkpoint [default: the latest that is not damaged]
    #[arg(long, value_name = "NUMBER")]
    pub number: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    number: u64,
    variables: usize,
    tables: usize,
    files: usize,
    bytes: u64,
    /// What is wrong with it; nothing is, as far as it was looked at.
    damage: Option<String>,
}

/// Does it.
pub fn run(command: &CheckpointCommand) -> anyhow::Result<Exit> {
    signals::leave_no_halves()?;
    match command {
        CheckpointCommand::List(args) => tell(args),
        CheckpointCommand::Export(args) => export(args),
        CheckpointCommand::Convert(args) => convert::run(args),
    }
}

fn tell(args: &ListArgs) -> anyhow::Result<Exit> {
    let folder = open(&args.folder)?;
    let whole = list(&folder).map_err(judged)?;
    let listed: Vec<Listed> = whole.into_iter().map(|id| look(&folder, id, args.verify)).collect();
    match args.output {
        Format::Json => output::json(&listed)?,
        Format::Text if listed.is_empty() => output::text(&format!("{}\n", nothing_in(&args.folder)))?,
        Format::Text => {
            let heading = ["NUMBER", "VARIABLES", "TABLES", "FILES", "BYTES", "DAMAGE"].map(str::to_owned).to_vec();
            let row = |one: &Listed| {
                let damage = one.damage.as_deref().unwrap_or(if args.verify { "none" } else { "-" });
                let numbers = [one.number, one.variables as u64, one.tables as u64, one.files as u64, one.bytes];
                numbers.iter().map(ToString::to_string).chain([damage.to_owned()]).collect()
            };
            let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
            output::text(&Table::new(heading).rows(&rows))?;
        }
    }
    Ok(if listed.iter().any(|one| one.damage.is_some()) { Exit::Failure } else { Exit::Success })
}

fn look(folder: &DirectoryStorage, id: CheckpointId, verify: bool) -> Listed {
    let nothing = Listed { number: id.0, variables: 0, tables: 0, files: 0, bytes: 0, damage: None };
    match Checkpoint::open(folder, id) {
        Err(error) => Listed { damage: Some(error.to_string()), ..nothing },
        Ok(checkpoint) => {
            let manifest = checkpoint.manifest();
            Listed {
                variables: manifest.model.variables.len(),
                tables: manifest.model.tables.len(),
                files: manifest.files.len(),
                bytes: manifest.files.iter().map(|file| file.bytes).sum(),
                damage: verify.then(|| checkpoint.verify().err()).flatten().map(|error| error.to_string()),
                ..nothing
            }
        }
    }
}

fn export(args: &ExportArgs) -> anyhow::Result<Exit> {
    let folder = open(&args.folder)?;
    let id = choose(&args.folder, args.number, |id| {
        let checkpoint = Checkpoint::open(&folder, id).map_err(judged)?;
        let mut file = Output::create(&args.out, Existing::Replace)?;
        export_plain(&checkpoint, &mut file).map_err(judged)?;
        file.commit()?;
        Ok(id)
    })?;
    output::text(&format!("wrote {} of checkpoint {id}\n", args.out.display()))?;
    Ok(Exit::Success)
}

/// Does something with the checkpoint of this number, or else with the latest that is not damaged: which ones are passed
/// over for it is told.
pub fn choose<T>(
    path: &Path,
    number: Option<u64>,
    mut with: impl FnMut(CheckpointId) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let whole = list(&open(path)?).map_err(judged)?;
    if let Some(number) = number {
        let shown = path.display();
        return match whole.into_iter().find(|id| id.0 == number) {
            Some(id) => with(id),
            None => refuse(format!(
                "{shown} has no checkpoint {number}; `flexor checkpoint list {shown}` tells which it has"
            )),
        };
    }
    if whole.is_empty() {
        return refuse(nothing_in(path));
    }
    let latest_first = whole.into_iter().rev().map(|id| (format!("checkpoint {id}"), id));
    first_undamaged(latest_first, with)
}

/// The first of some that is not damaged. Those before it are told, with what is wrong; where all are damaged, what is
/// wrong with the first.
fn first_undamaged<I, T>(
    all: impl Iterator<Item = (String, I)>,
    mut with: impl FnMut(I) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut passed: Vec<(String, anyhow::Error)> = Vec::new();
    for (name, one) in all {
        match with(one) {
            Err(error) if is_damage(&error) => passed.push((name, error)),
            done => {
                for (name, error) in &passed {
                    output::note(&format!("warning: {name} is passed over: {}", output::with_causes(error)));
                }
                return done;
            }
        }
    }
    match passed.into_iter().next() {
        Some((_, error)) => Err(error),
        None => refuse("there is no checkpoint".to_owned()),
    }
}

/// Whether an error says that a checkpoint is not as it was written.
fn is_damage(error: &anyhow::Error) -> bool {
    use CheckpointError::{Damaged, Import, Partition, Storage};
    use LoadError::{Contradiction, Import as Misfit, Incomplete, ModelFile, Nothing};
    let of_ours = |error: &CheckpointError| {
        matches!(error, Damaged { .. } | Partition { .. } | Import { .. } | Storage { .. }) && !error.is_write_error()
    };
    let of_others = |error: &LoadError| {
        matches!(error, Nothing(_) | Incomplete { .. } | ModelFile { .. } | Contradiction(_) | Misfit(_))
            || matches!(error, LoadError::Checkpoint(error) if of_ours(error))
    };
    let error = error.downcast_ref::<Refused>().map_or(error, |Refused(error)| error);
    error.chain().any(|cause| {
        cause.downcast_ref().is_some_and(of_ours)
            || cause.downcast_ref().is_some_and(of_others)
            || matches!(cause.downcast_ref(), Some(PredictionError::Checkpoint(error)) if of_ours(error))
    })
}

/// That there is nothing to be had in a folder.
fn nothing_in(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let begun = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("checkpoint-")).count();
    match begun {
        0 => format!("no checkpoints in {}", folder.display()),
        _ => format!("no checkpoint in {} is whole: {begun} begun and not finished", folder.display()),
    }
}

/// Which folder is meant.
const OF_THE_JOB: &str = "give the one of spec.flexor.checkpoints.folder";

fn open(folder: &Path) -> anyhow::Result<DirectoryStorage> {
    match folder.is_dir() {
        true => Ok(DirectoryStorage::new(folder)),
        false if folder.exists() => refuse(format!("{} is no folder; {OF_THE_JOB}", folder.display())),
        false => refuse(format!("there is no folder {}; {OF_THE_JOB}", folder.display())),
    }
}

fn refuse<T>(why: String) -> anyhow::Result<T> {
    Err(Refused(anyhow!(why)).into())
}

/// What cannot be read is a bad input; a place that takes nothing is not.
fn judged(error: CheckpointError) -> anyhow::Error {
    match error.is_write_error() {
        true => error.into(),
        false => Refused(error.into()).into(),
    }
}
