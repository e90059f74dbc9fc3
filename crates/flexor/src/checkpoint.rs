//! `flexor checkpoint`: what lies in a folder of checkpoints, whether it is whole, a plain model out of it, and checkpoints
//! of others.

mod convert;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use flexor_data::output::{Existing, Output};
use flexor_ps::checkpoint::{Checkpoint, CheckpointError, CheckpointId, Folder, export_plain, list};
use serde::Serialize;

use self::convert::ConvertArgs;
use crate::exit::{Exit, Refused};
use crate::output::{self, Format};
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
    /// Which checkpoint [default: the latest]
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
        Format::Text if listed.is_empty() => output::text("no checkpoint is whole\n")?,
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

fn look(folder: &Folder, id: CheckpointId, verify: bool) -> Listed {
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
    let whole = list(&folder).map_err(judged)?;
    let id = match args.number {
        None => whole.last().copied(),
        Some(number) => whole.into_iter().find(|id| id.0 == number),
    };
    let Some(id) = id else {
        let shown = args.folder.display();
        match args.number {
            None => return refuse(format!("{shown} has no checkpoint that is whole")),
            Some(number) => {
                let which = format!("`flexor checkpoint list {shown}` tells which it has");
                return refuse(format!("{shown} has no checkpoint {number}; {which}"));
            }
        }
    };
    let checkpoint = Checkpoint::open(&folder, id).map_err(judged)?;
    let mut file = Output::create(&args.out, Existing::Replace)?;
    export_plain(&checkpoint, &mut file).map_err(judged)?;
    file.commit()?;
    output::text(&format!("wrote {} of checkpoint {}\n", args.out.display(), id.0))?;
    Ok(Exit::Success)
}

fn open(folder: &Path) -> anyhow::Result<Folder> {
    match folder.is_dir() {
        true => Ok(Folder::new(folder)),
        false => refuse(format!("{} is no folder; give the one of spec.flexor.checkpoints.folder", folder.display())),
    }
}

fn refuse<T>(why: String) -> anyhow::Result<T> {
    Err(Refused(anyhow!(why)).into())
}

/// What cannot be read is a bad input; a place that takes nothing is not.
fn judged(error: CheckpointError) -> anyhow::Error {
    match error.is_about_writing() {
        true => error.into(),
        false => Refused(error.into()).into(),
    }
}
