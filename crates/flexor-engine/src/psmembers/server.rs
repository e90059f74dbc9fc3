//! Who keeps parameters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One life of a parameter server, which is a process. Started again it has another incarnation, and nothing in memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerId {
    /// The name, unique in the job: that of its pod.
    pub name: Arc<str>,
    /// Which life; a higher one ends the lower ones.
    pub incarnation: u64,
}

impl ServerId {
    /// A life of a server.
    pub fn new(name: impl Into<Arc<str>>, incarnation: u64) -> Self {
        Self { name: name.into(), incarnation }
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            0 => f.write_str(&self.name),
            incarnation => write!(f, "{} (life {incarnation})", self.name),
        }
    }
}

/// A server that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) incarnation: u64,
    /// Where clients and other servers reach it.
    pub(super) address: Arc<str>,
    /// Its session broke; until when it has to come back.
    pub(super) away_until: Option<Duration>,
    /// It has said that it is to end.
    pub(super) is_leaving: bool,
}

/// What the controller wants of the role, as far as there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// How many servers there should be. Not known without a controller: then those who come are all.
    pub expected: Option<u32>,
    /// Servers that are to go: they give away what they keep, and are released when nothing is left.
    pub leaving: std::collections::BTreeSet<Arc<str>>,
}
