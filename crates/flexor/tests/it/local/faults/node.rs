//! A test node: an agent in a thread that polls often and rejoins when its world changes.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::agent::{AgentView, FakeAgent};
use super::deadline::eventually;
use super::worlds::{World, Worlds};

/// torchrun polls once a second; the tests poll faster.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(2);

/// The node. Its agent ends when it is dropped.
pub struct Node {
    seen: Arc<Mutex<Observation>>,
    stop: Arc<AtomicBool>,
    socket: TcpStream,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Observation {
    shown: Option<AgentView>,
    /// The oldest that its own heartbeat ever was.
    heartbeat_age: Duration,
    /// Why it stopped polling.
    error: Option<String>,
}

impl Node {
    pub fn start(address: SocketAddr, name: &str, worlds: &Worlds) -> Self {
        let mut agent = FakeAgent::connect(address, name, 1).unwrap();
        let (socket, seen, stop) = (agent.socket(), Arc::new(Mutex::new(Observation::default())), Arc::default());
        let (sees, stops, worlds) = (Arc::clone(&seen), Arc::clone(&stop), worlds.clone());
        let thread = thread::spawn(move || {
            if let Err(error) = train(&mut agent, &sees, &stops, &worlds) {
                sees.lock().unwrap().error = Some(error.to_string());
            }
        });
        Self { seen, stop, socket, thread: Some(thread) }
    }

    /// Nodes in one world, each with its own store address.
    pub fn world<const N: usize>(stores: [(&str, SocketAddr); N], worlds: &Worlds) -> [Node; N] {
        let nodes = stores.map(|(name, store)| Node::start(store, name, worlds));
        nodes.iter().for_each(|node| assert_eq!(node.await_world(0, N).members.len(), N));
        nodes
    }

    /// Waits until it is in a world of this size, of this round or a later one.
    pub fn await_world(&self, round: u64, size: usize) -> World {
        eventually(&format!("a world of {size} in round {round}"), || match &self.seen.lock().unwrap().shown {
            Some(AgentView::World(world)) if world.round >= round && world.members.len() == size => Some(world.clone()),
            _ => None,
        })
    }

    pub fn shown(&self) -> Option<AgentView> {
        self.seen.lock().unwrap().shown.clone()
    }

    /// The oldest that its own heartbeat ever was to it.
    pub fn oldest_heartbeat(&self) -> Duration {
        self.seen.lock().unwrap().heartbeat_age
    }

    /// Why its connection ended, if it has.
    pub fn error(&self) -> Option<String> {
        self.seen.lock().unwrap().error.clone()
    }

    /// Kills the agent: the system closes its connection.
    pub fn kill(&self) {
        // Fails where the peer has closed the connection, which is as good.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.kill();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn train(agent: &mut FakeAgent, seen: &Mutex<Observation>, stop: &AtomicBool, worlds: &Worlds) -> io::Result<()> {
    let mut shown = agent.join()?;
    let mut beat = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        note(agent, &shown, seen, worlds);
        shown = match shown {
            AgentView::RestartWanted | AgentView::Outside => agent.join()?,
            AgentView::Closed => return Err(io::Error::other("the run is closed")),
            AgentView::World(_) | AgentView::Waiting | AgentView::Spare if beat.elapsed() > KEEP_ALIVE_EVERY => {
                beat = Instant::now();
                agent.keep_alive()?
            }
            AgentView::World(_) | AgentView::Waiting | AgentView::Spare => {
                thread::sleep(POLL_INTERVAL);
                agent.look()?
            }
        };
    }
    Ok(())
}

fn note(agent: &FakeAgent, shown: &AgentView, seen: &Mutex<Observation>, worlds: &Worlds) {
    if let AgentView::World(world) = shown {
        worlds.note(world);
    }
    let mut seen = seen.lock().unwrap();
    seen.heartbeat_age = seen.heartbeat_age.max(agent.heartbeat_age().unwrap_or_default());
    seen.shown = Some(shown.clone());
}
