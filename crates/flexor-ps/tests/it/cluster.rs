//! A master and servers, each with its own runtime, so that each can be killed abruptly.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use flexor_engine::ps_membership;
use flexor_engine::rendezvous::Settings;
use flexor_master::faults::Faults;
use flexor_master::job::Job;
use flexor_master::servers::ServersStatus;
use flexor_master::{Checkpoints, Config, Master, Ports};
use flexor_ps::client::{Client, ClientError};
use flexor_ps::server::{Server, ServerName, follow_master};
use flexor_ps::spec::{Initializer, ModelSpec, Optimizer, TableSpec, VariableSpec};
use flexor_wire::Token;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::server::TcpIncoming;

use crate::gate::Gate;

/// A model that counts: every push of a gradient of -1 adds exactly 1 to a row.
pub(crate) fn counting_model() -> ModelSpec {
    ModelSpec {
        variables: vec![VariableSpec { name: "w".into(), shape: vec![70_000], init: Initializer::Zeros }],
        tables: vec![TableSpec { name: "t".into(), dim: 4, init: Initializer::Zeros }],
        optimizer: Optimizer::sgd(1.0),
        seed: 1,
    }
}

pub(crate) struct Cluster {
    master: SocketAddr,
    config: Config,
    /// Runtime and job of the running master.
    running: Option<(Runtime, Job)>,
    servers: Vec<RunningServer>,
    incarnations: u64,
    /// A proxy between servers and master.
    gate: Option<Gate>,
}

struct RunningServer {
    name: String,
    incarnation: u64,
    /// Shutting it down stops the server abruptly; `None` after that.
    runtime: Option<Runtime>,
    server: Server,
}

impl Cluster {
    pub(crate) fn start(replication_factor: u32) -> Self {
        Self::start_with(replication_factor, None)
    }

    /// A cluster whose master requires a token.
    pub(crate) fn with_token(token: &str) -> Self {
        Self::open(Config { token: Some(Token::parse(token).unwrap()), ..config(1, None) })
    }

    pub(crate) fn master(&self) -> String {
        self.master.to_string()
    }

    /// A cluster that writes checkpoints into this directory without pause.
    pub(crate) fn with_checkpoints(replication_factor: u32, folder: &Path) -> Self {
        let folder = folder.display().to_string();
        Self::start_with(replication_factor, Some(Checkpoints { folder, every: Duration::from_millis(1), keep: 2 }))
    }

    /// A cluster whose master keeps its journal in `state`, so that it can be restarted. Servers reach it through a
    /// gate.
    pub(crate) fn behind_gate(replication_factor: u32, state: &Path) -> Self {
        let mut cluster = Self::open(Config { state: Some(state.to_owned()), ..config(replication_factor, None) });
        cluster.gate = Some(Gate::before(cluster.master));
        cluster
    }

    fn start_with(replication_factor: u32, checkpoints: Option<Checkpoints>) -> Self {
        Self::open(config(replication_factor, checkpoints))
    }

    fn open(config: Config) -> Self {
        let (runtime, listener) = (threads(), bound("127.0.0.1:0".parse().unwrap()).unwrap());
        let master = listener.local_addr().unwrap();
        let job = serve(&runtime, config.clone(), listener).unwrap();
        Self { master, config, running: Some((runtime, job)), servers: Vec::new(), incarnations: 0, gate: None }
    }

    /// Kills the master abruptly.
    pub(crate) fn kill_master(&mut self) {
        if let Some((runtime, job)) = self.running.take() {
            drop(job);
            runtime.shutdown_background();
        }
    }

    /// Restarts the master at the same address.
    pub(crate) async fn start_master(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        // The threads of the killed master need a moment to release the port and the journal.
        self.running = loop {
            let runtime = threads();
            let began = bound(self.master).map_err(|error| error.to_string());
            let began = began.and_then(|listener| serve(&runtime, self.config.clone(), listener));
            match began {
                Ok(job) => break Some((runtime, job)),
                Err(error) => assert!(Instant::now() < deadline, "the master does not restart: {error}"),
            }
            runtime.shutdown_background();
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
    }

    pub(crate) fn gate(&self) -> &Gate {
        self.gate.as_ref().unwrap()
    }

    fn job(&self) -> &Job {
        let (_, job) = self.running.as_ref().expect("the master runs");
        job
    }

    /// Starts the next incarnation of a server.
    pub(crate) fn add(&mut self, name: &str) {
        self.add_with(name, None);
    }

    /// Starts a server that requires a token.
    pub(crate) fn add_with_token(&mut self, name: &str, token: &str) {
        self.add_with(name, Some(Token::parse(token).unwrap()));
    }

    fn add_with(&mut self, name: &str, token: Option<Token>) {
        self.incarnations += 1;
        let me = ServerName { name: name.to_owned(), incarnation: self.incarnations };
        let master = self.gate.as_ref().map_or(self.master, Gate::address).to_string();
        let runtime = threads();
        let guard = runtime.enter();
        let listener = free();
        let address = listener.local_addr().unwrap().to_string();
        let (server, reports) = Server::new(me, token);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(tonic::transport::Server::builder().add_routes(server.routes()).serve_with_incoming(incoming));
        let follower = server.clone();
        tokio::spawn(async move { follow_master(&follower, &master, &address, reports).await });
        drop(guard);
        self.servers.push(RunningServer {
            name: name.to_owned(),
            incarnation: self.incarnations,
            runtime: Some(runtime),
            server,
        });
    }

    /// Drains a server as a signal does, then stops it.
    pub(crate) async fn drain(&mut self, name: &str) {
        let running = |server: &&RunningServer| server.name == name && server.runtime.is_some();
        let server = self.servers.iter().rfind(running).unwrap().server.clone();
        tokio::time::timeout(Duration::from_secs(60), server.drain()).await.expect("it is released");
        self.kill(name);
    }

    /// Kills a server abruptly.
    pub(crate) fn kill(&mut self, name: &str) {
        let index = self.servers.iter().rposition(|server| server.name == name && server.runtime.is_some()).unwrap();
        if let Some(runtime) = self.servers[index].runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Kills all servers and waits until none of their threads runs: a thread that writes a file finishes first.
    pub(crate) async fn end(mut self) {
        let servers: Vec<Runtime> = self.servers.iter_mut().filter_map(|server| server.runtime.take()).collect();
        let ended = tokio::task::spawn_blocking(move || drop(servers));
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("its threads end").unwrap();
    }

    /// Reports the desired number of servers, the running pods and the leaving servers, as the controller does.
    pub(crate) fn report_desired(&self, expected: u32, leaving: &[&str]) {
        let names: Vec<&str> = self.servers.iter().filter(|one| one.runtime.is_some()).map(|one| &*one.name).collect();
        self.job().servers().observe(expected, &names, leaving).unwrap();
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_of(counting_model()).await.unwrap()
    }

    /// A client with another model.
    pub(crate) async fn client_of(&self, model: ModelSpec) -> Result<Client, ClientError> {
        Client::connect(&self.master.to_string(), None, model).await
    }

    pub(crate) fn status(&self) -> ServersStatus {
        self.job().servers().status().unwrap()
    }

    pub(crate) fn latest(&self) -> u64 {
        self.status().checkpoints.and_then(|checkpoints| checkpoints.latest).unwrap_or(0)
    }

    /// Waits until a checkpoint is complete that was started after this call. Returns its number.
    pub(crate) async fn next_checkpoint(&self) -> u64 {
        // The next checkpoint may have been started already.
        let known = self.latest();
        let latest = |status: &ServersStatus| status.checkpoints.as_ref().and_then(|one| one.latest).unwrap_or(0);
        self.wait_until("another checkpoint", |status| latest(status) > known + 1).await;
        self.latest()
    }

    /// Waits until the status of the servers satisfies a condition.
    pub(crate) async fn wait_until(&self, what: &str, condition: impl Fn(&ServersStatus) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.job().servers().status();
            if status.as_ref().is_some_and(&condition) {
                return;
            }
            assert!(Instant::now() < deadline, "timed out waiting for {what}: {status:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until all partitions are placed and replicated as desired on the running servers.
    pub(crate) async fn wait_settled(&self) {
        let running: Vec<u64> =
            self.servers.iter().filter(|one| one.runtime.is_some()).map(|one| one.incarnation).collect();
        self.wait_until("settled partitions", |status| {
            let known: Vec<u64> = status.servers.iter().map(|server| server.incarnation).collect();
            let all_known =
                known.len() == running.len() && known.iter().all(|incarnation| running.contains(incarnation));
            all_known && status.settled && status.redundant && status.unowned == 0
        })
        .await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let servers = self.servers.iter_mut().filter_map(|server| server.runtime.take());
        servers.for_each(Runtime::shutdown_background);
        self.kill_master();
    }
}

fn config(replication_factor: u32, checkpoints: Option<Checkpoints>) -> Config {
    Config {
        job: "clicks".parse().unwrap(),
        uid: "uid-1".into(),
        settings: Settings::new(1, 1).unwrap(),
        servers: ps_membership::Settings { replication_factor, ..ps_membership::Settings::default() },
        checkpoints,
        state: None,
        token: None,
        journal_loss: flexor_master::LossPolicy::Refuse,
        hosts: Vec::new(),
        plain_store: false,
    }
}

fn serve(runtime: &Runtime, config: Config, grpc: std::net::TcpListener) -> Result<Job, String> {
    let _guard = runtime.enter();
    let (grpc, store, http) = (TcpListener::from_std(grpc).unwrap(), free(), free());
    let master =
        Master::open(config, Ports { grpc, store, http }, &Faults::off()).map_err(|error| error.to_string())?;
    let job = master.job().clone();
    tokio::spawn(master.serve(std::future::pending()));
    Ok(job)
}

pub(crate) fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// A listener on a free port. Must be called inside a runtime.
pub(crate) fn free() -> TcpListener {
    TcpListener::from_std(bound("127.0.0.1:0".parse().unwrap()).unwrap()).unwrap()
}

fn bound(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
