//! `flexor checkpoint convert`: any checkpoint that can be read, as native servers read it.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use flexor_ps::checkpoint::{Folder, list};
use flexor_ps::elasticdl::{Kept, convert};
use flexor_ps::spec::Optimizer;

use crate::exit::Exit;
use crate::output;

/// What `flexor checkpoint convert` takes.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// The checkpoint, or a folder of checkpoints of which the latest whole one is taken: of ElasticDL itself, of servers
    /// for its workers, or of a native job
    #[arg(value_name = "FROM")]
    pub from: PathBuf,
    /// The folder to write it into, as in spec.flexor.checkpoints.folder
    #[arg(value_name = "TO")]
    pub to: PathBuf,
    /// How the model is trained, which ElasticDL's own files do not say: SGD, Adagrad or Adam
    #[arg(long, alias = "opt_type", value_name = "TYPE", requires = "opt_args")]
    pub opt_type: Option<String>,
    /// Its numbers, such as 'learning_rate=0.1;momentum=0.0;nesterov=False'
    #[arg(long, alias = "opt_args", value_name = "ARGS", requires = "opt_type")]
    pub opt_args: Option<String>,
    /// What the first values of rows are drawn from, where the checkpoint does not say it
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub seed: u64,
}

/// Does it.
pub fn run(args: &ConvertArgs) -> anyhow::Result<Exit> {
    let ConvertArgs { from, to, opt_type, opt_args, seed } = args;
    let optimizer = opt_type.as_deref().zip(opt_args.as_deref()).map(|(kind, numbers)| {
        Optimizer::from_elasticdl(kind, numbers)
            .with_context(|| format!("--opt-type {kind} --opt-args '{numbers}' cannot be"))
    });
    let kept = Kept::read(from, optimizer.transpose()?, *seed)?;
    let number = u64::from(kept.version().unsigned_abs());
    // A job begins with the latest one of its folder.
    if let Some(later) = list(&Folder::new(to))?.into_iter().find(|known| known.0 >= number) {
        bail!("{} has checkpoint {later} already, and this is number {number}; name another folder", to.display());
    }
    let manifest = convert(kept, to).with_context(|| format!("cannot write into {}", to.display()))?;
    let told = "a job that begins with it goes through its data from the beginning";
    output::text(&format!("wrote checkpoint {} to {}; {told}\n", manifest.id, to.display()))?;
    Ok(Exit::Success)
}
