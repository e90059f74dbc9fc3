//! The description of one worker that is to be started: program, ranks and environment.

use std::ffi::OsString;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::processes::EnvironmentChanges;

/// Rank of a worker on its node, `0..nproc_per_node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LocalRank(pub u32);

/// Rank of a worker in the world, `0..world_size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GlobalRank(pub u32);

impl fmt::Display for LocalRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for GlobalRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A worker that is to be started.
#[derive(Debug, Clone)]
pub struct WorkerSpec {
    /// Unique within the group.
    pub local_rank: LocalRank,
    /// Its rank in the world; none if it starts outside every world.
    pub rank: Option<GlobalRank>,
    /// Role, for the prefixes of console lines.
    pub role: String,
    /// A path, or a name that is looked up in the worker's `PATH`.
    pub program: OsString,
    pub args: Vec<OsString>,
    /// How its environment differs from the launcher's.
    pub environment: EnvironmentChanges,
}
