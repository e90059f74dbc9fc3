//! Nodes that join over the native API, and the size of the master's log.

use std::path::Path;

use anyhow::Result;

use crate::bench::our_master::{Disk, OurMaster};
use crate::bench::sessions;

/// One rendezvous.
#[derive(Debug, Clone, Copy)]
pub(super) struct RendezvousSample {
    /// From the first join sent until all know rank and world size.
    pub(super) seconds: f64,
    /// The size of the master's log by then.
    pub(super) log_bytes: f64,
}

impl RendezvousSample {
    /// Of a rendezvous that was not run.
    pub(super) const NEVER: RendezvousSample = RendezvousSample { seconds: f64::INFINITY, log_bytes: f64::INFINITY };
}

/// Runs a rendezvous of this many nodes at a new master of ours, each over its own session.
pub(super) async fn meet(flexor: &Path, nodes: usize) -> Result<RendezvousSample> {
    let master = OurMaster::start(flexor, nodes, Disk::AsItIs)?;
    let clients = sessions::connect(master.grpc(), nodes).await?;
    let joined = sessions::join(&clients, nodes).await?;
    Ok(RendezvousSample { seconds: joined.seconds, log_bytes: master.log_bytes()? as f64 })
}
