//! The same load on DLRover's master, over as many connections.

use std::sync::Arc;

use anyhow::{Result, ensure};
use flexor_testbed::Dlrover;

use super::mix::Message;
use crate::bench::dlrover_master::{DlroverClient, DlroverMaster, Pickles};
use crate::bench::load::{self, Lane, Load, OUTSTANDING};
use crate::bench::sessions::NODES_PER_CONNECTION;

/// One run against a new master after all nodes have joined.
pub(super) async fn run(dlrover: &Dlrover, nodes: usize) -> Result<Load> {
    let pickles = Arc::new(Pickles::make(dlrover, nodes)?);
    let master = DlroverMaster::start(dlrover, nodes)?;
    let mut clients = Vec::new();
    for _ in 0..nodes.div_ceil(NODES_PER_CONNECTION) {
        clients.push(master.connect().await?);
    }
    clients[0].report(0, &pickles.params).await?;
    for (node, join) in pickles.joins.iter().enumerate() {
        clients[0].get(node, join).await?;
    }
    let world = clients[0].get(0, &pickles.worlds[0]).await?.len();
    ensure!(world > nodes, "{nodes} nodes have joined at DLRover's master and its world has {world} bytes");
    let lanes = (0..OUTSTANDING).map(|lane| Agents {
        client: clients[lane % clients.len()].clone(),
        lane,
        pickles: Arc::clone(&pickles),
    });
    load::drive(lanes.collect(), master.pid()).await
}

struct Agents {
    client: DlroverClient,
    lane: usize,
    pickles: Arc<Pickles>,
}

impl Lane for Agents {
    async fn ask(&mut self, turn: usize) -> Result<()> {
        let node = (self.lane + turn * OUTSTANDING) % self.pickles.joins.len();
        let pickles = &self.pickles;
        match Message::at(turn) {
            Message::Beat => self.client.get(node, &pickles.beat).await.map(drop),
            Message::Set => self.client.report(node, &pickles.sets[node]).await,
            Message::Get => self.client.get(node, &pickles.gets[node]).await.map(drop),
            Message::Poll => self.client.get(node, &pickles.worlds[node]).await.map(drop),
        }
    }
}
