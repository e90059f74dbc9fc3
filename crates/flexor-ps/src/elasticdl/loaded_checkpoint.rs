//! A checkpoint loaded into memory, written by ElasticDL-compatible servers, native servers, or ElasticDL itself.
//!
//! Parts are loaded completely and redistributed, so that any number of servers can continue from a checkpoint of any
//! other number, with slots and step counts. ElasticDL's own files have neither; they start as in a new model.

mod model_files;
mod parts;
mod redistribution;

use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec;

use thiserror::Error;

use self::redistribution::VersionPolicy;
use super::options::Options;
use super::parameters::Parameters;
use super::refusal::Refusal;
use crate::checkpoint::CheckpointError;
use crate::hosted::HostedPartitions;
use crate::layout::Layout;
use crate::legacy_placement::{server_of_row, server_of_variable};
use crate::partition::{ImportError, Partition};
use crate::snapshot::SnapshotLost;
use crate::spec::{Optimizer, SpecError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelShare {
    /// The whole model.
    All,
    /// The share of one server under ElasticDL's placement.
    Server { server: u32, servers: NonZeroU32 },
}

impl ModelShare {
    fn includes_variable(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Server { server, servers } => server_of_variable(name, servers) == server,
        }
    }

    fn includes_row(self, key: u64) -> bool {
        match self {
            Self::All => true,
            Self::Server { server, servers } => server_of_row(key.cast_signed(), servers) == server,
        }
    }
}

/// A checkpoint in memory, ready to be redistributed.
pub struct LoadedCheckpoint {
    sources: Vec<PartSource>,
    optimizer: Optimizer,
    seed: u64,
    version: i32,
}

/// The part of one server, or a whole native checkpoint, as partitions in ascending order.
struct PartSource {
    layout: Arc<Layout>,
    partitions: vec::IntoIter<Partition>,
}

/// The checkpoint cannot be loaded or does not fit.
#[derive(Debug, Error)]
pub enum LoadError {
    #[error("cannot read '{}': {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error(
        "'{}' has no complete checkpoint; name a directory with version-* or checkpoint-* directories, or one of these",
        .0.display()
    )]
    Nothing(PathBuf),
    #[error("'{}' has {found} of the {wanted} parts of a checkpoint; restore an earlier one", .path.display())]
    Incomplete { path: PathBuf, found: usize, wanted: usize },
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("'{}' is not a model file of ElasticDL: {why}", .path.display())]
    ModelFile { path: PathBuf, why: String },
    #[error("the model of the checkpoint is invalid: {0}")]
    Spec(#[from] SpecError),
    #[error("the model of the checkpoint is invalid: {0}")]
    Refusal(#[from] Refusal),
    #[error("the checkpoint was trained with {found}, and its state does not fit {wanted}; continue with {found}")]
    OtherOptimizer { wanted: &'static str, found: &'static str },
    #[error("files of ElasticDL do not name the optimizer; name it with --opt-type and --opt-args")]
    NoOptimizer,
    #[error("two parts of the checkpoint contradict each other in '{0}'; they are not of one job")]
    Contradiction(String),
    #[error("the parts of the checkpoint do not fit together: {0}")]
    Import(#[from] ImportError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotLost),
}

impl LoadedCheckpoint {
    /// Loads a checkpoint from a directory with files of ElasticDL, ElasticDL-compatible servers or native servers. If
    /// `path` contains several checkpoints, loads the latest complete one.
    ///
    /// `optimizer` overrides the hyperparameters of the checkpoint. ElasticDL's files have no optimizer and no seed.
    pub fn read(path: &Path, optimizer: Option<Optimizer>, seed: u64) -> Result<Self, LoadError> {
        let loaded = match parts::find(path)? {
            parts::CheckpointFiles::ModelFiles(files) => {
                let optimizer = optimizer.ok_or(LoadError::NoOptimizer)?;
                return model_files::read(&files, optimizer, seed);
            }
            parts::CheckpointFiles::Parts(directories) => parts::read(&directories)?,
            parts::CheckpointFiles::Native { root, id } => parts::read_native(&root, id)?,
        };
        match optimizer {
            Some(wanted) if wanted.name() != loaded.optimizer.name() || wanted.slots() != loaded.optimizer.slots() => {
                Err(LoadError::OtherOptimizer { wanted: wanted.name(), found: loaded.optimizer.name() })
            }
            Some(optimizer) => Ok(Self { optimizer, ..loaded }),
            None => Ok(loaded),
        }
    }

    /// The highest version of the servers that wrote it.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// The partitions of a share of the model.
    pub fn partitions_of(self, share: ModelShare) -> Result<HostedPartitions, LoadError> {
        redistribution::redistribute(self, share, VersionPolicy::Keep)
    }

    /// The whole model, for a job that starts its data from the beginning.
    pub(super) fn for_another_job(self) -> Result<HostedPartitions, LoadError> {
        redistribution::redistribute(self, ModelShare::All, VersionPolicy::Reset)
    }

    /// The parameters of a server that continues from this checkpoint.
    pub fn into_parameters(self, options: Options, share: ModelShare) -> Result<Parameters, LoadError> {
        let version = self.version;
        Ok(Parameters::restored(options, self.partitions_of(share)?, version))
    }
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> LoadError {
    let path = path.to_owned();
    move |error| LoadError::Io { path, error }
}
