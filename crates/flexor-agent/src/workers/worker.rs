//! One worker as it is to be started: which program, with which ranks and environment.

use std::ffi::OsString;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::processes::EnvironmentChanges;

/// The place of a worker among those of its node, `0..nproc_per_node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LocalRank(pub u32);

/// The place of a worker in the whole world, `0..world_size`.
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

/// A process to start.
#[derive(Debug, Clone)]
pub struct WorkerSpec {
    /// Unique within the group.
    pub local_rank: LocalRank,
    /// The rank it has in its world; none where it is started outside every world.
    pub rank: Option<GlobalRank>,
    /// The role, for prefixes of console lines.
    pub role: String,
    /// A path, or a name to look for in the worker's `PATH`.
    pub program: OsString,
    /// What follows the program's name.
    pub args: Vec<OsString>,
    /// How its environment differs from the launcher's.
    pub environment: EnvironmentChanges,
}
