//! Simulated nodes that speak the native API: each has its own session, and many share a connection.
//!
//! The race decides what they send after they have joined.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::master_client::MasterClient;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use wire::reply::Result as Answer;
use wire::request::Op;

/// Real nodes have a connection each; ten thousand sockets of one process would be a race of the kernel.
pub(super) const NODES_PER_CONNECTION: usize = 100;

/// The deadline of a world's formation.
const LIMIT: Duration = Duration::from_secs(120);

/// The open session of one node.
pub(super) struct Session {
    node: wire::Node,
    requests: mpsc::Sender<wire::Request>,
    replies: Streaming<wire::Reply>,
    last_id: u64,
}

/// All nodes, in their world.
pub(super) struct JoinedNodes {
    pub(super) sessions: Vec<Session>,
    /// From the first join that was sent until the last node knew its rank and the size of the world.
    pub(super) seconds: f64,
}

/// Enough connections for this many nodes.
pub(super) async fn connect(grpc: &str, nodes: usize) -> Result<Vec<MasterClient<Channel>>> {
    let endpoint = Endpoint::from_shared(format!("http://{grpc}"))?.tcp_nodelay(true);
    let mut clients = Vec::new();
    for _ in 0..nodes.div_ceil(NODES_PER_CONNECTION) {
        let channel = endpoint.connect().await.with_context(|| format!("cannot connect to {grpc}"))?;
        clients.push(MasterClient::new(channel));
    }
    Ok(clients)
}

/// The node with this number.
pub(super) fn node(number: usize) -> wire::Node {
    wire::Node { name: format!("node-{number:05}"), incarnation: 1 }
}

/// Lets all nodes join at once and waits until each knows its rank in the one world.
pub(super) async fn join(clients: &[MasterClient<Channel>], nodes: usize) -> Result<JoinedNodes> {
    let started = Instant::now();
    let mut joining = JoinSet::new();
    for number in 0..nodes {
        let client = clients[number % clients.len()].clone();
        joining.spawn(Session::join(client, node(number), nodes));
    }
    let (mut sessions, mut last, mut ranks) = (Vec::with_capacity(nodes), started, Vec::with_capacity(nodes));
    let too_long = || format!("a world of {nodes} nodes did not form within {LIMIT:?}; see the log of the master");
    while let Some(joined) = tokio::time::timeout(LIMIT, joining.join_next()).await.with_context(too_long)? {
        let (session, rank, known) = joined??;
        last = last.max(known);
        ranks.push(rank);
        sessions.push(session);
    }
    ranks.sort_unstable();
    ensure!(ranks.iter().copied().eq(0..ranks.len()), "{nodes} nodes have joined and a rank is missing or given twice");
    Ok(JoinedNodes { sessions, seconds: (last - started).as_secs_f64() })
}

impl Session {
    /// Opens a session with this request; its answer is not waited for.
    pub(super) async fn open(mut client: MasterClient<Channel>, node: wire::Node, first: Op) -> Result<Session> {
        let (requests, outgoing) = mpsc::channel(4);
        requests.send(wire::Request { id: 1, node: Some(node.clone()), op: Some(first) }).await?;
        let replies = client.session(ReceiverStream::new(outgoing)).await?.into_inner();
        Ok(Session { node, requests, replies, last_id: 1 })
    }

    /// Opens a session with a join and waits for the world. The rank, and when it was known.
    async fn join(client: MasterClient<Channel>, node: wire::Node, size: usize) -> Result<(Session, usize, Instant)> {
        let mut session = Session::open(client, node, Op::Join(wire::Join::default())).await?;
        loop {
            let world = match session.receive().await?.result {
                Some(Answer::World(world)) => world,
                other => bail!("{} joined and was answered with {other:?}", session.node.name),
            };
            if world.state() == wire::world::MemberState::InWorld {
                ensure!(world.size as usize == size, "a world of {} nodes where {size} were wanted", world.size);
                return Ok((session, world.rank as usize, Instant::now()));
            }
        }
    }

    /// Sends a request and waits for its answer; skips unsolicited messages of the master.
    pub(super) async fn ask(&mut self, op: Op) -> Result<Answer> {
        self.last_id += 1;
        let request = wire::Request { id: self.last_id, node: Some(self.node.clone()), op: Some(op) };
        self.requests.send(request).await?;
        loop {
            let reply = self.receive().await?;
            if reply.id == self.last_id {
                return accepted(reply);
            }
        }
    }

    async fn receive(&mut self) -> Result<wire::Reply> {
        self.replies.message().await?.with_context(|| format!("the session of {} ended", self.node.name))
    }
}

/// An answer that is no refusal.
pub(super) fn accepted(reply: wire::Reply) -> Result<Answer> {
    match reply.result {
        Some(Answer::Refusal(refusal)) => bail!("refused: {}: {}", refusal.reason, refusal.detail),
        Some(answer) => Ok(answer),
        None => bail!("an answer without a result"),
    }
}
