//! `flexor checkpoint`: lists and verifies the checkpoints of a folder, exports a model, and converts checkpoints of
//! ElasticDL.

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

#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// List the checkpoints of a folder, and verify them with --verify
    #[command(
        after_help = "Examples:\n  flexor checkpoint list checkpoints\n  flexor checkpoint list checkpoints --verify -o json"
    )]
    List(ListArgs),
    /// Export a model as one safetensors file for serving, without optimizer state
    ///
    /// Variables keep their names; each embedding table becomes NAME@keys and NAME@values. The metadata holds the model,
    /// to compute the values of rows that were never trained.
    #[command(
        after_help = "Examples:\n  flexor checkpoint export checkpoints model.safetensors\n  flexor checkpoint export checkpoints old.safetensors --number 12"
    )]
    Export(ExportArgs),
    /// Convert a checkpoint of ElasticDL, or of another job, into one that a new job starts from
    ///
    /// Converts parameters and optimizer state, for a job that trains the same model. It does not convert the progress in
    /// the data: the job starts its own data from the beginning.
    #[command(
        after_help = "Examples:\n  flexor checkpoint convert /checkpoints/version-4000 checkpoints\n  flexor checkpoint convert /elasticdl checkpoints --opt-type SGD --opt-args 'learning_rate=0.1;momentum=0.0;nesterov=False'"
    )]
    Convert(ConvertArgs),
}

/// Arguments of `flexor checkpoint list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Folder of checkpoints, as in spec.flexor.checkpoints.folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Read every byte and compare checksums
    #[arg(long)]
    pub verify: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Format,
}

/// Arguments of `flexor checkpoint export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Folder of checkpoints, as in spec.flexor.checkpoints.folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// File to write; an existing file is replaced when the new one is complete
    #[arg(value_name = "FILE")]
    pub out: PathBuf,
    /// Number of the checkpoint [default: the latest that is not damaged]
    #[arg(long, value_name = "N")]
    pub number: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedCheckpoint {
    number: u64,
    variables: usize,
    tables: usize,
    files: usize,
    bytes: u64,
    /// The first damage that was found. Without `--verify` only the manifest is read.
    damage: Option<String>,
}

pub fn run(command: &CheckpointCommand) -> anyhow::Result<Exit> {
    signals::remove_unfinished_on_exit()?;
    match command {
        CheckpointCommand::List(args) => print_list(args),
        CheckpointCommand::Export(args) => export(args),
        CheckpointCommand::Convert(args) => convert::run(args),
    }
}

fn print_list(args: &ListArgs) -> anyhow::Result<Exit> {
    let folder = open(&args.folder)?;
    let complete = list(&folder).map_err(judged)?;
    let listed: Vec<ListedCheckpoint> = complete.into_iter().map(|id| describe(&folder, id, args.verify)).collect();
    match args.output {
        Format::Json => output::json(&listed)?,
        Format::Text if listed.is_empty() => output::text(&format!("{}\n", nothing_in(&args.folder)))?,
        Format::Text => {
            let heading = ["NUMBER", "VARIABLES", "TABLES", "FILES", "BYTES", "DAMAGE"].map(str::to_owned).to_vec();
            let row = |one: &ListedCheckpoint| {
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

fn describe(folder: &DirectoryStorage, id: CheckpointId, verify: bool) -> ListedCheckpoint {
    let unread = ListedCheckpoint { number: id.0, variables: 0, tables: 0, files: 0, bytes: 0, damage: None };
    match Checkpoint::open(folder, id) {
        Err(error) => ListedCheckpoint { damage: Some(error.to_string()), ..unread },
        Ok(checkpoint) => {
            let manifest = checkpoint.manifest();
            ListedCheckpoint {
                variables: manifest.model.variables.len(),
                tables: manifest.model.tables.len(),
                files: manifest.files.len(),
                bytes: manifest.files.iter().map(|file| file.bytes).sum(),
                damage: verify.then(|| checkpoint.verify().err()).flatten().map(|error| error.to_string()),
                ..unread
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

/// Uses the checkpoint with this number, or else the latest that is not damaged. Warns of the damaged ones that it skips.
pub fn choose<T>(
    path: &Path,
    number: Option<u64>,
    mut with: impl FnMut(CheckpointId) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let complete = list(&open(path)?).map_err(judged)?;
    if let Some(number) = number {
        let shown = path.display();
        return match complete.into_iter().find(|id| id.0 == number) {
            Some(id) => with(id),
            None => refuse(format!(
                "{shown} has no checkpoint {number}; `flexor checkpoint list {shown}` shows which it has"
            )),
        };
    }
    if complete.is_empty() {
        return refuse(nothing_in(path));
    }
    let latest_first = complete.into_iter().rev().map(|id| (format!("checkpoint {id}"), id));
    first_undamaged(latest_first, with)
}

/// Uses the first candidate that is not damaged, and warns of those before it. If all are damaged, the error is that of
/// the first.
fn first_undamaged<I, T>(
    all: impl Iterator<Item = (String, I)>,
    mut with: impl FnMut(I) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut damaged: Vec<(String, anyhow::Error)> = Vec::new();
    for (name, one) in all {
        match with(one) {
            Err(error) if is_damage(&error) => damaged.push((name, error)),
            done => {
                for (name, error) in &damaged {
                    output::note(&format!("warning: {name} is skipped: {}", output::with_causes(error)));
                }
                return done;
            }
        }
    }
    match damaged.into_iter().next() {
        Some((_, error)) => Err(error),
        None => refuse("there is no checkpoint".to_owned()),
    }
}

/// Whether an error says that a checkpoint is damaged or incomplete.
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

/// The message for a folder without a complete checkpoint.
fn nothing_in(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let incomplete = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("checkpoint-")).count();
    match incomplete {
        0 => format!("no checkpoints in {}", folder.display()),
        _ => format!("no checkpoint in {} is complete: {incomplete} not finished", folder.display()),
    }
}

const FOLDER_HINT: &str = "give the folder of spec.flexor.checkpoints.folder";

fn open(folder: &Path) -> anyhow::Result<DirectoryStorage> {
    match folder.is_dir() {
        true => Ok(DirectoryStorage::new(folder)),
        false if folder.exists() => refuse(format!("{} is not a folder; {FOLDER_HINT}", folder.display())),
        false => refuse(format!("there is no folder {}; {FOLDER_HINT}", folder.display())),
    }
}

fn refuse<T>(message: String) -> anyhow::Result<T> {
    Err(Refused(anyhow!(message)).into())
}

/// An unreadable checkpoint is a bad input. A folder that cannot be written is not.
fn judged(error: CheckpointError) -> anyhow::Error {
    match error.is_write_error() {
        true => error.into(),
        false => Refused(error.into()).into(),
    }
}
