//! Nodes that join at DLRover's master.
//!
//! Real agents query the world every five seconds. Here each queries once, after all have joined, which is the lightest
//! possible load on this master.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use flexor_testbed::Dlrover;
use tokio::task::JoinSet;

use super::native::RendezvousSample;
use crate::bench::dlrover_master::{DlroverClient, DlroverMaster, Pickles};

/// Calls under way at a time. Its thread pool has as many.
const OUTSTANDING: usize = 64;

/// The shortest entry of a pickled world: a rank and a number of processes.
const ENTRY: usize = 3;

/// Runs a rendezvous of this many nodes at a new master of DLRover.
pub(super) async fn meet(dlrover: &Dlrover, nodes: usize) -> Result<RendezvousSample> {
    let pickles = Pickles::make(dlrover, nodes)?;
    let master = DlroverMaster::start(dlrover, nodes)?;
    let mut client = master.connect().await?;
    client.report(0, &pickles.params).await?;
    let started = Instant::now();
    ask_all(&client, pickles.joins, 1).await?;
    ask_all(&client, pickles.worlds, ENTRY * nodes).await?;
    Ok(RendezvousSample { seconds: started.elapsed().as_secs_f64(), log_bytes: master.log_bytes()? as f64 })
}

/// Sends the request of every node and waits for the answers, each of at least this many bytes.
async fn ask_all(client: &DlroverClient, requests: Vec<Bytes>, at_least: usize) -> Result<()> {
    let requests = Arc::new(requests);
    let mut lanes = JoinSet::new();
    for lane in 0..OUTSTANDING {
        let (mut client, requests) = (client.clone(), Arc::clone(&requests));
        lanes.spawn(async move {
            for (node, request) in requests.iter().enumerate().skip(lane).step_by(OUTSTANDING) {
                let length = client.get(node, request).await?.len();
                ensure!(length >= at_least, "node {node} got {length} bytes from DLRover's master, no whole world");
            }
            Ok(())
        });
    }
    lanes.join_all().await.into_iter().collect()
}
