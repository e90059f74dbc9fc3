//! The load on our master: over the sessions of the nodes, or as single calls.

use std::path::Path;

use anyhow::Result;
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::master_client::MasterClient;
use tonic::transport::Channel;

use super::mix::{Acknowledged, Message};
use crate::bench::load::{self, Lane, Load, OUTSTANDING};
use crate::bench::our_master::{Disk, OurMaster};
use crate::bench::sessions::{self, Session};

/// How the nodes speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// Over the session that every node has open.
    Streams,
    /// A call for each message; the sessions stay open beside them.
    Unary,
}

/// One run against a new master.
pub(super) async fn run(
    flexor: &Path,
    nodes: usize,
    calls: Calls,
    acknowledged: Acknowledged,
    disk: Disk,
) -> Result<Load> {
    let master = OurMaster::start(flexor, nodes, disk)?;
    let clients = sessions::connect(master.grpc(), nodes).await?;
    let joined = sessions::join(&clients, nodes).await?.sessions;
    match calls {
        Calls::Streams => {
            let mut lanes: Vec<_> = (0..OUTSTANDING).map(|_| Streams { sessions: Vec::new(), acknowledged }).collect();
            for (node, session) in joined.into_iter().enumerate() {
                lanes[node % OUTSTANDING].sessions.push((node, session));
            }
            load::drive(lanes, master.pid()).await
        }
        Calls::Unary => {
            let lane = |lane: usize| Unary { client: clients[lane % clients.len()].clone(), lane, nodes, acknowledged };
            let load = load::drive((0..OUTSTANDING).map(lane).collect(), master.pid()).await;
            drop(joined);
            load
        }
    }
}

struct Streams {
    sessions: Vec<(usize, Session)>,
    acknowledged: Acknowledged,
}

impl Lane for Streams {
    async fn ask(&mut self, turn: usize) -> Result<()> {
        let count = self.sessions.len();
        let (node, session) = &mut self.sessions[turn % count];
        session.ask(Message::at(turn + turn / count).native(*node, self.acknowledged)).await.map(drop)
    }
}

struct Unary {
    client: MasterClient<Channel>,
    lane: usize,
    nodes: usize,
    acknowledged: Acknowledged,
}

impl Lane for Unary {
    async fn ask(&mut self, turn: usize) -> Result<()> {
        let node = (self.lane + turn * OUTSTANDING) % self.nodes;
        let op = Message::at(turn).native(node, self.acknowledged);
        let request = wire::Request { id: 1, node: Some(sessions::node(node)), op: Some(op) };
        sessions::accepted(self.client.call(request).await?.into_inner()).map(drop)
    }
}
