//! The real master and servers over a simulated network. Each can be killed at any moment and restarted.
//!
//! Killing a party ends its tasks and connections. Files that it is writing may still be completed, as on a machine
//! that has lost its network but not its disk.

use std::collections::BTreeMap;
use std::time::Duration;

use flexor_engine::ps_membership;
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
    replication_factor: u32,
    checkpoints: Option<Checkpoints>,
    memory: SimulatedDisk,
    master: Option<Tasks>,
    job: watch::Sender<Option<Job>>,
    pub(crate) servers: BTreeMap<Name, SimulatedServer>,
    incarnations: u64,
    /// Servers that are to be drained.
    pub(crate) leaving: Vec<Name>,
}

pub(crate) struct SimulatedServer {
    /// Each incarnation has its own address.
    pub(crate) address: Name,
    server: Server,
    _tasks: Tasks,
}

/// Tasks that are aborted on drop.
struct Tasks(Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl World {
    pub(crate) async fn begin(network: Network, replication_factor: u32, checkpoints: Option<Checkpoints>) -> Self {
        let mut world = Self {
            network,
            replication_factor,
            checkpoints,
            memory: SimulatedDisk::default(),
            master: None,
            job: watch::Sender::new(None),
            servers: BTreeMap::new(),
            incarnations: 0,
            leaving: Vec::new(),
        };
        world.start_master().await;
        world
    }

    /// The map epoch of the last rewind.
    pub(crate) async fn rewind_epoch(&self) -> u64 {
        running(&mut self.job()).await.servers().rewind_epoch()
    }

    /// Follows the job of the running master; `None` while no master runs.
    pub(crate) fn job(&self) -> watch::Receiver<Option<Job>> {
        self.job.subscribe()
    }

    pub(crate) async fn start_master(&mut self) {
        let config = Config {
            job: "simulated".parse().unwrap(),
            uid: "uid-1".into(),
            settings: Settings::new(1, 1).unwrap(),
            servers: ps_membership::Settings {
                replication_factor: self.replication_factor,
                ..ps_membership::Settings::default()
            },
            checkpoints: self.checkpoints.clone(),
            state: None,
            token: None,
            journal_loss: flexor_master::LossPolicy::Refuse,
            hosts: Vec::new(),
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
        self.report_desired();
    }

    /// Kills the master. State outside its journal is lost.
    pub(crate) fn kill_master(&mut self, silently: bool) {
        self.job.send_replace(None);
        self.master = None;
        self.network.kill(&Name::from(MASTER), silently);
    }

    /// Starts the next incarnation of a server.
    pub(crate) fn start_server(&mut self, name: &str) {
        self.incarnations += 1;
        let me = ServerName { name: name.to_owned(), incarnation: self.incarnations };
        let address = Name::from(format!("{name}-{}", self.incarnations));
        let (server, reports) = Server::with_dialer(me, None, self.network.dialer(&address));
        let incoming = self.network.listen(&address);
        let serving = tonic::transport::Server::builder().add_routes(server.routes()).serve_with_incoming(incoming);
        let (my_address, follower) = (address.clone(), server.clone());
        let following = async move { drop(follow_master(&follower, MASTER, &my_address, reports).await) };
        let tasks = vec![tokio::spawn(async { drop(serving.await) }), tokio::spawn(following)];
        self.servers.insert(Name::from(name), SimulatedServer { address, server, _tasks: Tasks(tasks) });
    }

    pub(crate) fn kill_server(&mut self, name: &Name, silently: bool) {
        if let Some(SimulatedServer { address, .. }) = self.servers.remove(name) {
            self.network.kill(&address, silently);
        }
    }

    /// Reports the desired number of servers, the running pods and the leaving servers, as the controller does.
    pub(crate) fn report_desired(&self) {
        let Some(job) = &*self.job.borrow() else { return };
        let alive: Vec<&str> = self.servers.keys().map(|name| &**name).collect();
        let leaving: Vec<&str> = self.leaving.iter().map(|name| &**name).collect();
        let expected = alive.iter().filter(|name| !leaving.contains(name)).count();
        let observed = job.servers().observe(expected as u32, &alive, &leaving);
        observed.expect("a journal in memory has room");
    }

    /// Leaving servers that the master has released.
    pub(crate) fn released(&self) -> Vec<Name> {
        let released = self.job.borrow().as_ref().map(|job| job.servers().released()).unwrap_or_default();
        self.leaving.iter().filter(|name| released.iter().any(|one| **one == ***name)).cloned().collect()
    }

    pub(crate) fn status(&self) -> Option<ServersStatus> {
        self.job.borrow().as_ref()?.servers().status()
    }

    /// Whether all partitions are placed and replicated as desired on the running servers.
    pub(crate) fn is_settled(&self) -> bool {
        let Some(status) = self.status() else { return false };
        let running: Vec<String> = self.servers.values().map(|one| one.address.to_string()).collect();
        let known: Vec<&String> = status.servers.iter().filter_map(|one| one.address.as_ref()).collect();
        let all_known = known.len() == running.len()
            && status.servers.len() == running.len()
            && known.iter().all(|address| running.contains(address));
        let can_replicate = self.servers.len() - self.leaving.len().min(self.servers.len()) > 1;
        all_known
            && status.settled
            && status.unowned == 0
            && (status.redundant || self.replication_factor == 1 || !can_replicate)
    }

    /// Describes the state of the master and of all servers, for a failed history.
    pub(crate) fn describe(&self) -> String {
        let status = self.status().map(|status| {
            let servers: Vec<String> = status
                .servers
                .iter()
                .map(|one| {
                    let address = one.address.as_deref().unwrap_or("away");
                    format!(
                        "{} (incarnation {}, {address}): {} + {}",
                        one.name, one.incarnation, one.partitions, one.copies
                    )
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

/// A listener that no client uses: a master needs some.
async fn unused() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Waits for a running master and returns its job.
pub(crate) async fn running(job: &mut watch::Receiver<Option<Job>>) -> Job {
    let running = job.wait_for(Option::is_some).await.expect("the world outlives its workers");
    running.clone().expect("waited for")
}
