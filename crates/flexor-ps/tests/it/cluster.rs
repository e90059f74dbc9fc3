//! A master and servers, each with threads of its own, so that one can be killed without a word.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use flexor_engine::psmembers;
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

/// A table that counts: every push of a gradient of -1 adds 1 to a row, exactly.
pub(crate) fn counting() -> ModelSpec {
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
    /// All that the master is, while it lives.
    running: Option<(Runtime, Job)>,
    servers: Vec<Running>,
    lives: u64,
    /// What servers speak to in the master's place.
    gate: Option<Gate>,
}

struct Running {
    name: String,
    life: u64,
    /// All that the server is; without it everything of it stops at once.
    runtime: Option<Runtime>,
    server: Server,
}

impl Cluster {
    pub(crate) fn start(copies: u32) -> Self {
        Self::start_with(copies, None)
    }

    /// One that is spoken to with a token only.
    pub(crate) fn guarded(token: &str) -> Self {
        Self::open(Config { token: Some(Token::parse(token).unwrap()), ..config(1, None) })
    }

    /// Where the master is.
    pub(crate) fn master(&self) -> String {
        self.master.to_string()
    }

    /// One whose servers write checkpoints into this folder, one after the other.
    pub(crate) fn saving(copies: u32, folder: &Path) -> Self {
        let folder = folder.display().to_string();
        Self::start_with(copies, Some(Checkpoints { folder, every: Duration::from_millis(1), keep: 2 }))
    }

    /// One whose master writes down in this folder what it decides, so that it can be killed. Its servers speak to it
    /// through a gate.
    pub(crate) fn gated(copies: u32, state: &Path) -> Self {
        let mut cluster = Self::open(Config { state: Some(state.to_owned()), ..config(copies, None) });
        cluster.gate = Some(Gate::before(cluster.master));
        cluster
    }

    fn start_with(copies: u32, checkpoints: Option<Checkpoints>) -> Self {
        Self::open(config(copies, checkpoints))
    }

    fn open(config: Config) -> Self {
        let (runtime, listener) = (threads(), bound("127.0.0.1:0".parse().unwrap()).unwrap());
        let master = listener.local_addr().unwrap();
        let job = serve(&runtime, config.clone(), listener).unwrap();
        Self { master, config, running: Some((runtime, job)), servers: Vec::new(), lives: 0, gate: None }
    }

    /// Kills the master without a word.
    pub(crate) fn kill_master(&mut self) {
        if let Some((runtime, job)) = self.running.take() {
            drop(job);
            runtime.shutdown_background();
        }
    }

    /// Starts the master again, where it was.
    pub(crate) async fn start_master(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        // The threads of the one before take a moment to let go of the port and of the journal.
        self.running = loop {
            let runtime = threads();
            let began = bound(self.master).map_err(|error| error.to_string());
            let began = began.and_then(|listener| serve(&runtime, self.config.clone(), listener));
            match began {
                Ok(job) => break Some((runtime, job)),
                Err(error) => assert!(Instant::now() < deadline, "the master does not start again: {error}"),
            }
            runtime.shutdown_background();
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
    }

    /// What stands between the servers and the master.
    pub(crate) fn gate(&self) -> &Gate {
        self.gate.as_ref().unwrap()
    }

    fn job(&self) -> &Job {
        let (_, job) = self.running.as_ref().expect("the master runs");
        job
    }

    /// Starts a server, or starts it again.
    pub(crate) fn add(&mut self, name: &str) {
        self.add_with(name, None);
    }

    /// The same, one that is spoken to with this token only.
    pub(crate) fn add_guarded(&mut self, name: &str, token: &str) {
        self.add_with(name, Some(Token::parse(token).unwrap()));
    }

    fn add_with(&mut self, name: &str, token: Option<Token>) {
        self.lives += 1;
        let me = ServerName { name: name.to_owned(), incarnation: self.lives };
        let master = self.gate.as_ref().map_or(self.master, Gate::address).to_string();
        let runtime = threads();
        let inside = runtime.enter();
        let listener = free();
        let address = listener.local_addr().unwrap().to_string();
        let (server, reports) = Server::new(me, token);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(tonic::transport::Server::builder().add_routes(server.routes()).serve_with_incoming(incoming));
        let follows = server.clone();
        tokio::spawn(async move { follow_master(&follows, &master, &address, reports).await });
        drop(inside);
        self.servers.push(Running { name: name.to_owned(), life: self.lives, runtime: Some(runtime), server });
    }

    /// Tells a server to end, as a signal does: it ends when it may.
    pub(crate) async fn dismiss(&mut self, name: &str) {
        let running = |server: &&Running| server.name == name && server.runtime.is_some();
        let server = self.servers.iter().rfind(running).unwrap().server.clone();
        tokio::time::timeout(Duration::from_secs(60), server.drained()).await.expect("it is released");
        self.kill(name);
    }

    /// Kills a server without a word.
    pub(crate) fn kill(&mut self, name: &str) {
        let place = self.servers.iter().rposition(|server| server.name == name && server.runtime.is_some()).unwrap();
        if let Some(runtime) = self.servers[place].runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Kills all that is left, and waits until no thread of a server runs any more: one that writes a file finishes what it
    /// is at.
    pub(crate) async fn end(mut self) {
        let servers: Vec<Runtime> = self.servers.iter_mut().filter_map(|server| server.runtime.take()).collect();
        let ended = tokio::task::spawn_blocking(move || drop(servers));
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("its threads end").unwrap();
    }

    /// The controller wants so many servers, without these.
    pub(crate) fn want(&self, expected: u32, leaving: &[&str]) {
        let names: Vec<&str> = self.servers.iter().filter(|one| one.runtime.is_some()).map(|one| &*one.name).collect();
        self.job().servers().observe(expected, &names, leaving).unwrap();
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_of(counting()).await.unwrap()
    }

    /// A client that trains another model.
    pub(crate) async fn client_of(&self, model: ModelSpec) -> Result<Client, ClientError> {
        Client::connect(&self.master.to_string(), None, model).await
    }

    /// What the master says of its servers.
    pub(crate) fn status(&self) -> ServersStatus {
        self.job().servers().status().unwrap()
    }

    /// The latest checkpoint.
    pub(crate) fn latest(&self) -> u64 {
        self.status().checkpoints.and_then(|checkpoints| checkpoints.latest).unwrap_or(0)
    }

    /// Waits until a checkpoint is whole that was begun after this was called.
    pub(crate) async fn saved(&self) -> u64 {
        // The next one may have been begun already.
        let known = self.latest();
        let latest = |status: &ServersStatus| status.checkpoints.as_ref().and_then(|one| one.latest).unwrap_or(0);
        self.until("another checkpoint", |status| latest(status) > known + 1).await;
        self.latest()
    }

    /// Waits until the servers are like this.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&ServersStatus) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.job().servers().status();
            if status.as_ref().is_some_and(&is_so) {
                return;
            }
            assert!(Instant::now() < deadline, "{what} did not come: {status:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until every partition is where it should be and kept as often as it should be, by the servers that run.
    pub(crate) async fn settled(&self) {
        let running: Vec<u64> = self.servers.iter().filter(|one| one.runtime.is_some()).map(|one| one.life).collect();
        self.until("rest", |status| {
            let known: Vec<u64> = status.servers.iter().map(|server| server.incarnation).collect();
            let are_they = known.len() == running.len() && known.iter().all(|life| running.contains(life));
            are_they && status.settled && status.redundant && status.unowned == 0
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

fn config(copies: u32, checkpoints: Option<Checkpoints>) -> Config {
    Config {
        job: "clicks".parse().unwrap(),
        uid: "uid-1".into(),
        settings: Settings::new(1, 1).unwrap(),
        servers: psmembers::Settings { copies, ..psmembers::Settings::default() },
        checkpoints,
        state: None,
        token: None,
        plain_store: false,
    }
}

/// Has a master serve.
fn serve(runtime: &Runtime, config: Config, grpc: std::net::TcpListener) -> Result<Job, String> {
    let _inside = runtime.enter();
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

/// A port of the machine, to be used inside a runtime.
pub(crate) fn free() -> TcpListener {
    TcpListener::from_std(bound("127.0.0.1:0".parse().unwrap()).unwrap()).unwrap()
}

fn bound(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
