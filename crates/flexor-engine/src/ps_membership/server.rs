//! Identity and connection state of parameter servers, and the controller's target for them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One incarnation of a parameter server process. A restarted process has a higher incarnation and empty memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServerId {
    /// The name of its pod, unique in the job.
    pub name: Arc<str>,
    /// A higher incarnation ends the lower ones.
    pub incarnation: u64,
}

impl ServerId {
    pub fn new(name: impl Into<Arc<str>>, incarnation: u64) -> Self {
        Self { name: name.into(), incarnation }
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            0 => f.write_str(&self.name),
            incarnation => write!(f, "{} (incarnation {incarnation})", self.name),
        }
    }
}

/// A server that has connected and is not given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerState {
    pub(super) incarnation: u64,
    /// Where clients and other servers reach it; empty before it has connected to this master.
    pub(super) address: Arc<str>,
    /// Set while the server has no session: its deadline to reconnect.
    pub(super) reconnect_by: Option<Duration>,
    /// The server itself has announced that it will end.
    pub(super) is_draining: bool,
}

/// The controller's target for the parameter servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredServers {
    /// Target replicas. Unknown without a controller: then every server that connects counts.
    pub expected: Option<u32>,
    /// Servers to drain: their partitions move to other servers, then they are released.
    pub leaving: std::collections::BTreeSet<Arc<str>>,
}
