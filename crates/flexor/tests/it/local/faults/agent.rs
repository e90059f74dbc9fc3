//! A test agent with torchrun's rendezvous protocol over a real socket: it decides from the state it reads and writes
//! with compare-and-set.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flexor_store::codec::Request;
use flexor_store::state::{self, NodeDesc, RendezvousState, Stamp};

use super::master::JOB;
use super::store_client::StoreClient;
use super::worlds::World;

/// An agent's view of the rendezvous state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentView {
    /// It is in a complete world.
    World(World),
    /// It should stop its workers and join again.
    RestartWanted,
    /// It has joined, others are missing.
    Waiting,
    /// It is a spare.
    Spare,
    /// The run accepts no more nodes.
    Closed,
    /// It is nowhere.
    Outside,
}

/// One agent.
pub struct FakeAgent {
    pub store: StoreClient,
    node: NodeDesc,
    /// The state that it read last, which its next compare-and-set expects.
    known: Bytes,
    read_at: i64,
}

impl FakeAgent {
    /// An agent that has joined nothing yet. The incarnation distinguishes it from earlier agents of the same name.
    pub fn connect(address: SocketAddr, name: &str, incarnation: u64) -> io::Result<Self> {
        let mut store = StoreClient::connect(address)?;
        let sentinel = Bytes::from_static(state::SENTINEL);
        store.send(&Request::CompareSet { key: state_key(), expected: Bytes::new(), desired: sentinel })?;
        let known = store.read_value()?;
        let node = NodeDesc { addr: name.into(), pid: incarnation, local_id: 0 };
        Ok(Self { store, node, known, read_at: unix_micros() })
    }

    /// Reads the state.
    pub fn look(&mut self) -> io::Result<AgentView> {
        self.store.send(&Request::Get { key: state_key() })?;
        self.answer()
    }

    /// Leaves its world, if it is in one, and asks for the next, without waiting for the answer.
    pub fn ask_to_join(&mut self) -> io::Result<()> {
        self.look()?;
        if self.is_in(&self.state()) {
            let mut left = self.state();
            left.participants.retain(|(node, _)| *node != self.node);
            left.last_heartbeats.retain(|(node, _)| *node != self.node);
            self.write(&left)?;
            self.answer()?;
        }
        let mut joined = self.state();
        if joined.complete {
            joined.wait_list.insert(self.node.clone());
        } else {
            joined.participants.push((self.node.clone(), 0));
        }
        self.stamp(&mut joined);
        self.write(&joined)
    }

    /// Leaves its world, if it is in one, and asks for the next.
    pub fn join(&mut self) -> io::Result<AgentView> {
        self.ask_to_join()?;
        self.answer()
    }

    /// Writes its heartbeat, as agents do every five seconds.
    pub fn keep_alive(&mut self) -> io::Result<AgentView> {
        let mut state = self.state();
        self.stamp(&mut state);
        self.write(&state)?;
        self.answer()
    }

    /// Reads the answer to a read or a write.
    pub fn answer(&mut self) -> io::Result<AgentView> {
        self.known = self.store.read_value()?;
        self.read_at = unix_micros();
        Ok(self.shown())
    }

    /// How old its own heartbeat is by its own clock, in the state it read last. Beyond 15 seconds torchrun believes
    /// that it was thrown out.
    pub fn heartbeat_age(&self) -> Option<Duration> {
        let state = self.state();
        let (_, stamp) = state.last_heartbeats.iter().find(|(node, _)| *node == self.node)?;
        Some(Duration::from_micros(u64::try_from(self.read_at - stamp.unix_micros()).unwrap_or(0)))
    }

    /// A second hand on its connection.
    pub fn socket(&self) -> TcpStream {
        self.store.socket()
    }

    fn shown(&self) -> AgentView {
        let state = self.state();
        if state.closed {
            return AgentView::Closed;
        }
        if state.redundancy_list.contains(&self.node) {
            return AgentView::Spare;
        }
        let rank = state.participants.iter().find(|(node, _)| *node == self.node).map(|(_, rank)| *rank);
        match rank {
            Some(_) if !state.complete => AgentView::Waiting,
            _ if !state.wait_list.is_empty() => AgentView::RestartWanted,
            Some(rank) => AgentView::World(World { round: state.round, rank, members: by_rank(state.participants) }),
            None => AgentView::Outside,
        }
    }

    fn is_in(&self, state: &RendezvousState) -> bool {
        state.participants.iter().any(|(node, _)| *node == self.node)
    }

    fn state(&self) -> RendezvousState {
        if self.known == state::SENTINEL {
            return RendezvousState::default();
        }
        state::decode(&self.known).unwrap()
    }

    fn stamp(&self, state: &mut RendezvousState) {
        state.last_heartbeats.retain(|(node, _)| *node != self.node);
        state.last_heartbeats.push((self.node.clone(), Stamp::from_unix_micros(unix_micros()).unwrap()));
    }

    fn write(&mut self, state: &RendezvousState) -> io::Result<()> {
        let (expected, desired) = (self.known.clone(), state::encode(state).into());
        self.store.send(&Request::CompareSet { key: state_key(), expected, desired })
    }
}

/// The key that the agents of the job write.
pub fn state_key() -> Bytes {
    format!("/torch.rendezvous.{JOB}").into()
}

fn by_rank(mut participants: Vec<(NodeDesc, u64)>) -> Vec<NodeDesc> {
    participants.sort_unstable_by_key(|(_, rank)| *rank);
    assert!(participants.iter().map(|(_, rank)| *rank).eq(0..participants.len() as u64), "{participants:?}");
    participants.into_iter().map(|(node, _)| node).collect()
}

fn unix_micros() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_micros()).unwrap()
}
