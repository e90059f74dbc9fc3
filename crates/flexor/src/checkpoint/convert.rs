//! `flexor checkpoint convert`: writes a checkpoint of ElasticDL or of another job in the format of native servers.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use flexor_ps::checkpoint::{DirectoryStorage, list};
use flexor_ps::elasticdl::{LoadError, LoadedCheckpoint, convert};
use flexor_ps::spec::Optimizer;

use super::{first_undamaged, judged, refuse};
use crate::exit::{Exit, Misused, Refused};
use crate::output;

/// Arguments of `flexor checkpoint convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// Checkpoint, or a folder of checkpoints to take the latest complete and undamaged one from: of ElasticDL itself, of
    /// `flexor ps --elasticdl`, or of a native job
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// Folder to write it into, as in spec.flexor.checkpoints.folder
    #[arg(value_name = "TO")]
    pub to: PathBuf,
    /// Optimizer, which ElasticDL's own files do not contain: SGD, Adagrad or Adam
    #[arg(long, alias = "opt_type", value_name = "TYPE", requires = "opt_args")]
    pub opt_type: Option<String>,
    /// Arguments of the optimizer, such as 'learning_rate=0.1;momentum=0.0;nesterov=False'
    #[arg(long, alias = "opt_args", value_name = "ARGS", requires = "opt_type")]
    pub opt_args: Option<String>,
    /// Seed of the initial values of rows, if the checkpoint does not contain it
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
}

pub fn run(args: &ConvertArgs) -> anyhow::Result<Exit> {
    let ConvertArgs { from, to, opt_type, opt_args, seed } = args;
    let optimizer = opt_type.as_deref().zip(opt_args.as_deref()).map(|(kind, numbers)| {
        let optimizer = Optimizer::from_elasticdl(kind, numbers);
        optimizer.map_err(|error| Misused(anyhow!("--opt-type {kind} --opt-args '{numbers}': {error}")))
    });
    let optimizer = optimizer.transpose()?;
    if is_same_folder(from, to) {
        let shown = from.display();
        return refuse(format!("{shown} is in the folder to write into; name another folder to write into"));
    }
    let loaded = first_undamaged(candidates(from).into_iter(), |one| {
        LoadedCheckpoint::read(&one, optimizer, *seed).map_err(|error| Refused(error.into()).into())
    })?;
    let number = u64::from(loaded.version().unsigned_abs());
    // A job starts from the latest checkpoint of its folder.
    let existing = list(&DirectoryStorage::new(to)).map_err(judged)?;
    if let Some(later) = existing.into_iter().find(|existing| existing.0 >= number) {
        let shown = to.display();
        return refuse(format!(
            "{shown} has checkpoint {later} already, and this is checkpoint {number}; name another folder"
        ));
    }
    let manifest = convert(loaded, to).map_err(|error| match error {
        LoadError::Checkpoint(error) => judged(error).context(format!("cannot write into {}", to.display())),
        other => Refused(other.into()).into(),
    })?;
    let hint = "a job that starts from it starts its data from the beginning";
    output::text(&format!("wrote checkpoint {} to {}; {hint}\n", manifest.id, to.display()))?;
    Ok(Exit::Success)
}

/// The checkpoints that `from` may name, each with its display name: those in the folder from the latest on, else the
/// folder itself.
fn candidates(from: &Path) -> Vec<(String, PathBuf)> {
    let number = |name: &str| {
        let digits = name.strip_prefix("checkpoint-").or_else(|| name.strip_prefix("version-"))?;
        digits.parse::<u64>().ok()
    };
    let entries = std::fs::read_dir(from).into_iter().flatten().flatten();
    let mut found: Vec<(u64, String)> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| Some((number(&name)?, name)))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    match found.is_empty() {
        true => vec![(from.display().to_string(), from.to_owned())],
        false => found.into_iter().map(|(_, name)| (name.clone(), from.join(name))).collect(),
    }
}

/// Whether the new checkpoint would lie beside its source: in the source folder, under any path, or in the folder of the
/// source checkpoint. A job of that folder would then start from it.
fn is_same_folder(from: &Path, to: &Path) -> bool {
    let (Ok(from), Ok(to)) = (from.canonicalize(), to.canonicalize()) else { return false };
    let name = from.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_one = ["checkpoint-", "version-"].iter().any(|prefix| name.starts_with(prefix));
    from == to || is_one && from.parent() == Some(&to)
}
