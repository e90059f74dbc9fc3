//! A master and servers, the real ones, over a network in memory. Each can be killed at any moment and started again.
//!
//! What a killed party was at is ended with its connections: nothing that it still does reaches anybody, but the files
//! that it was writing, as with a machine that is cut off from all but its disk.

use std::collections::BTreeMap;
use std::time::Duration;

use flexor_engine::psmembers;
use flexor_engine::rendezvous::Settings;
use flexor_master::faults::Faults;
use flexor_master::job::Job;
use flexor_master::journal::SimulatedDisk;
use flexor_master::servers::ServersStatus;
use flexor_master::{Checkpoints, Config, Master, Ports};
use flexor_ps::server::{Server, ServerName, follow_master};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::network::{Name, Network};

pub(crate) const MASTER: &str = "master";

pub(crate) struct World {
    pub(crate) network: Network,
    copies: u32,
    checkpoints: Option<Checkpoints>,
    memory: SimulatedDisk,
    master: Option<Tasks>,
    job: watch::Sender<Option<Job>>,
    pub(crate) servers: BTreeMap<Name, Running>,
    lives: u64,
    /// Names of servers that are to go.
    pub(crate) leaving: Vec<Name>,
}

/// A server that runs.
pub(crate) struct Running {
    /// Where it is reached: each life elsewhere.
    pub(crate) address: Name,
    server: Server,
    _tasks: Tasks,
}

/// What ends with its owner.
struct Tasks(Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl World {
    pub(crate) async fn begin(network: Network, copies: u32, checkpoints: Option<Checkpoints>) -> Self {
        let mut world = Self {
            network,
            copies,
            checkpoints,
            memory: SimulatedDisk::default(),
            master: None,
            job: watch::Sender::new(None),
            servers: BTreeMap::new(),
            lives: 0,
            leaving: Vec::new(),
        };
        world.start_master().await;
        world
    }

    /// The map by which all servers last went back.
    pub(crate) async fn rewound(&self) -> u64 {
        running(&mut self.job()).await.servers().rewound()
    }

    /// The job of the master that runs, as it changes.
    pub(crate) fn job(&self) -> watch::Receiver<Option<Job>> {
        self.job.subscribe()
    }

    pub(crate) async fn start_master(&mut self) {
        let config = Config {
            job: "simulated".parse().unwrap(),
            uid: "uid-1".into(),
            settings: Settings::new(1, 1).unwrap(),
            servers: psmembers::Settings { copies: self.copies, ..psmembers::Settings::default() },
            checkpoints: self.checkpoints.clone(),
            state: None,
            token: None,
            plain_store: false,
        };
        let ports = Ports { grpc: unused().await, store: unused().await, http: unused().await };
        let master = Master::open_remembered(config, ports, &Faults::off(), &self.memory).unwrap();
        let (job, routes) = (master.job().clone(), master.routes());
        let incoming = self.network.listen(&Name::from(MASTER));
        let serving = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(2)))
            .http2_keepalive_timeout(Some(Duration::from_secs(4)))
            .add_routes(routes)
            .serve_with_incoming(incoming);
        let keeping = async { drop(master.serve(std::future::pending()).await) };
        let tasks = vec![tokio::spawn(async { drop(serving.await) }), tokio::spawn(keeping)];
        self.master = Some(Tasks(tasks));
        self.job.send_replace(Some(job));
        self.want();
    }

    /// Kills the master: what it had not written down is gone.
    pub(crate) fn kill_master(&mut self, silently: bool) {
        self.job.send_replace(None);
        self.master = None;
        self.network.kill(&Name::from(MASTER), silently);
    }

    /// Starts a server, or the next life of it.
    pub(crate) fn start_server(&mut self, name: &str) {
        self.lives += 1;
        let me = ServerName { name: name.to_owned(), incarnation: self.lives };
        let address = Name::from(format!("{name}-{}", self.lives));
        let (server, reports) = Server::with_dialer(me, None, self.network.dialer(&address));
        let incoming = self.network.listen(&address);
        let serving = tonic::transport::Server::builder().add_routes(server.routes()).serve_with_incoming(incoming);
        let (my_address, follower) = (address.clone(), server.clone());
        let following = async move { drop(follow_master(&follower, MASTER, &my_address, reports).await) };
        let tasks = vec![tokio::spawn(async { drop(serving.await) }), tokio::spawn(following)];
        self.servers.insert(Name::from(name), Running { address, server, _tasks: Tasks(tasks) });
    }

    /// Kills a server.
    pub(crate) fn kill_server(&mut self, name: &Name, silently: bool) {
        if let Some(Running { address, .. }) = self.servers.remove(name) {
            self.network.kill(&address, silently);
        }
    }

    /// The controller says how many servers there should be, which pods are alive, and which are to leave.
    pub(crate) fn want(&self) {
        let Some(job) = &*self.job.borrow() else { return };
        let alive: Vec<&str> = self.servers.keys().map(|name| &**name).collect();
        let leaving: Vec<&str> = self.leaving.iter().map(|name| &**name).collect();
        let expected = alive.iter().filter(|name| !leaving.contains(name)).count();
        let told = job.servers().observe(expected as u32, &alive, &leaving);
        told.expect("a journal in memory has room");
    }

    /// Servers that were to leave and may.
    pub(crate) fn released(&self) -> Vec<Name> {
        let released = self.job.borrow().as_ref().map(|job| job.servers().released()).unwrap_or_default();
        self.leaving.iter().filter(|name| released.iter().any(|one| **one == ***name)).cloned().collect()
    }

    pub(crate) fn status(&self) -> Option<ServersStatus> {
        self.job.borrow().as_ref()?.servers().status()
    }

    /// Whether every partition is where it should be and kept as often as it should be, by the servers that run.
    pub(crate) fn is_settled(&self) -> bool {
        let Some(status) = self.status() else { return false };
        let running: Vec<String> = self.servers.values().map(|one| one.address.to_string()).collect();
        let known: Vec<&String> = status.servers.iter().filter_map(|one| one.address.as_ref()).collect();
        let are_they = known.len() == running.len()
            && status.servers.len() == running.len()
            && known.iter().all(|address| running.contains(address));
        let may_be_twice = self.servers.len() - self.leaving.len().min(self.servers.len()) > 1;
        are_they && status.settled && status.unowned == 0 && (status.redundant || self.copies == 1 || !may_be_twice)
    }

    /// What everybody is told about the servers, for a history that went wrong.
    pub(crate) fn described(&self) -> String {
        let status = self.status().map(|status| {
            let servers: Vec<String> = status
                .servers
                .iter()
                .map(|one| {
                    let address = one.address.as_deref().unwrap_or("away");
                    format!("{} (life {}, {address}): {} + {}", one.name, one.incarnation, one.partitions, one.copies)
                })
                .collect();
            let (epoch, unowned, settled) = (status.epoch, status.unowned, status.settled);
            format!(
                "map {epoch}, {unowned} unowned, redundant {}, settled {settled}, {:?}, {servers:?}",
                status.redundant, status.checkpoints
            )
        });
        let running: Vec<String> = self.servers.values().map(|one| format!("{:?}", one.server)).collect();
        format!("leaving {:?}; the master says: {status:?}; running: {}", self.leaving, running.join("\n"))
    }
}

/// A port that nobody is told of: a master opens some.
async fn unused() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// The job of the master that runs, waiting for one.
pub(crate) async fn running(job: &mut watch::Receiver<Option<Job>>) -> Job {
    let running = job.wait_for(Option::is_some).await.expect("the world outlives its workers");
    running.clone().expect("waited for")
}
