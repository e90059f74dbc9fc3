//! A checkpoint that was read, whoever wrote it: servers of this wire, native ones, or ElasticDL itself.
//!
//! Parts are read whole and sorted anew for who is to keep them, so that any number of servers can go on from any other
//! number, with slots and step counts. ElasticDL's own files have neither; what they lack begins as in a new model.

mod gather;
mod model_files;
mod parts;

use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use thiserror::Error;

use self::gather::Versions;
use super::options::Options;
use super::parameters::Parameters;
use super::refusal::Refusal;
use crate::checkpoint::CheckpointError;
use crate::hosted::Hosted;
use crate::layout::Layout;
use crate::legacy_placement::{server_of_row, server_of_variable};
use crate::partition::{ArrivalError, Partition};
use crate::snapshot::SnapshotLost;
use crate::spec::{Optimizer, SpecError};

/// Who keeps what of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeper {
    /// One keeps all of it.
    All,
    /// A server of ElasticDL's placement.
    Server {
        /// Its number.
        server: u32,
        /// Of how many.
        servers: NonZeroU32,
    },
}

impl Keeper {
    fn keeps_variable(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Server { server, servers } => server_of_variable(name, servers) == server,
        }
    }

    fn keeps_row(self, key: u64) -> bool {
        match self {
            Self::All => true,
            Self::Server { server, servers } => server_of_row(key.cast_signed(), servers) == server,
        }
    }
}

/// A checkpoint in memory.
pub struct Kept {
    sources: Vec<Source>,
    optimizer: Optimizer,
    seed: u64,
    version: i32,
}

/// What one server has written, or all of what native ones have: partitions in order.
struct Source {
    layout: Arc<Layout>,
    partitions: vec::IntoIter<Partition>,
}

/// A checkpoint that cannot be gone on from.
#[derive(Debug, Error)]
pub enum KeptError {
    /// A file or folder that cannot be read.
    #[error("cannot read '{}': {error}", .path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// Nothing that could be a checkpoint.
    #[error(
        "'{}' has no checkpoint that is whole; name a folder with version-* or checkpoint-* folders, or one of these",
        .0.display()
    )]
    Nothing(PathBuf),
    /// Parts are missing.
    #[error("'{}' has {found} of the {wanted} parts of a checkpoint; restore an earlier one", .path.display())]
    Incomplete {
        /// The folder.
        path: PathBuf,
        /// How many parts there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// Files of ours that cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Files of ElasticDL that cannot be read.
    #[error("'{}' is no model of ElasticDL: {why}", .path.display())]
    ModelFile {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// A model that cannot be.
    #[error("the model of the checkpoint cannot be: {0}")]
    Spec(#[from] SpecError),
    /// A value that cannot be.
    #[error("the model of the checkpoint cannot be: {0}")]
    Refusal(#[from] Refusal),
    /// Another optimizer.
    #[error("the checkpoint was trained with {found}, and its state does not fit {wanted}; go on with {found}")]
    OtherOptimizer {
        /// The optimizer asked for.
        wanted: &'static str,
        /// That of the checkpoint.
        found: &'static str,
    },
    /// ElasticDL's files do not say it.
    #[error("files of ElasticDL do not say how the model is trained; say it with --opt-type and --opt-args")]
    NoOptimizer,
    /// Parts that contradict each other.
    #[error("two parts of the checkpoint have '{0}', and differ in it; they are not of one job")]
    Contradiction(String),
    /// Pieces that do not make a partition.
    #[error("the parts of the checkpoint do not fit together: {0}")]
    Arrival(#[from] ArrivalError),
    /// It was not to be read any more.
    #[error(transparent)]
    Snapshot(#[from] SnapshotLost),
}

impl Kept {
    /// Reads a checkpoint: a folder with files of ElasticDL, of servers of this wire, or of native ones, or the latest
    /// that is whole in a folder of such folders.
    ///
    /// Without an `optimizer` it goes on with that of the checkpoint. ElasticDL's files have none, and no seed.
    pub fn read(path: &Path, optimizer: Option<Optimizer>, seed: u64) -> Result<Self, KeptError> {
        let kept = match parts::find(path)? {
            parts::Found::ModelFiles(files) => {
                let optimizer = optimizer.ok_or(KeptError::NoOptimizer)?;
                return model_files::read(&files, optimizer, seed);
            }
            parts::Found::Parts(folders) => parts::read(&folders)?,
            parts::Found::Native { root, id } => parts::read_native(&root, id)?,
        };
        match optimizer {
            Some(wanted) if wanted.name() != kept.optimizer.name() || wanted.slots() != kept.optimizer.slots() => {
                Err(KeptError::OtherOptimizer { wanted: wanted.name(), found: kept.optimizer.name() })
            }
            Some(optimizer) => Ok(Self { optimizer, ..kept }),
            None => Ok(kept),
        }
    }

    /// The version of the servers that wrote it; the latest, where they differ.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// What a keeper has of it.
    pub fn kept_by(self, keeper: Keeper) -> Result<Hosted, KeptError> {
        gather::gather(self, keeper, Versions::Kept)
    }

    /// All of it, for a job that goes through its data from the beginning.
    pub(super) fn for_another_job(self) -> Result<Hosted, KeptError> {
        gather::gather(self, Keeper::All, Versions::FromZero)
    }

    /// The parameters with which a server goes on.
    pub fn go_on(self, options: Options, keeper: Keeper) -> Result<Parameters, KeptError> {
        let version = self.version;
        Ok(Parameters::restored(options, self.kept_by(keeper)?, version))
    }
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> KeptError {
    let path = path.to_owned();
    move |error| KeptError::Io { path, error }
}
