//! A master that serves on free ports while the test runs.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use flexor_engine::rendezvous::Settings;
use flexor_master::faults::Faults;
use flexor_master::{Checkpoints, Config, Master, MasterError, Ports, Token};
use flexor_wire::master::v1 as wire;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

pub(crate) struct Serving {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) generation: u64,
    task: JoinHandle<Result<(), MasterError>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Serving {
    pub(crate) async fn start(min: u32, max: u32) -> Self {
        Self::with(min, max, None, None).await.unwrap()
    }

    pub(crate) async fn with(
        min: u32,
        max: u32,
        state: Option<&Path>,
        token: Option<&str>,
    ) -> Result<Self, MasterError> {
        Self::saving(min, max, state, token, None).await
    }

    /// Starts a master that may make checkpoints.
    pub(crate) async fn saving(
        min: u32,
        max: u32,
        state: Option<&Path>,
        token: Option<&str>,
        checkpoints: Option<Checkpoints>,
    ) -> Result<Self, MasterError> {
        let free = || TcpListener::bind("127.0.0.1:0");
        let ports = Ports { grpc: free().await?, store: free().await?, http: free().await? };
        let [grpc, http] = [&ports.grpc, &ports.http].map(|port| port.local_addr().unwrap());
        let config = Config {
            job: "mnist".parse().unwrap(),
            uid: "uid-1".into(),
            settings: Settings::new(min, max).unwrap(),
            servers: Default::default(),
            checkpoints,
            state: state.map(Path::to_owned),
            token: token.map(|token| Token::parse(token).unwrap()),
            journal_loss: flexor_master::LossPolicy::Refuse,
            hosts: vec!["job-master.svc".to_owned()],
            plain_store: false,
        };
        let master = Master::open(config, ports, &Faults::off())?;
        let generation = master.generation().0;
        let task = tokio::spawn(master.serve(std::future::pending()));
        Ok(Self { grpc, http, generation, task })
    }

    /// Waits until the master ends by itself.
    pub(crate) async fn ended(&mut self) -> Result<(), MasterError> {
        (&mut self.task).await.unwrap()
    }

    pub(crate) async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.grpc)).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn client(&self) -> wire::master_client::MasterClient<Channel> {
        wire::master_client::MasterClient::new(self.channel().await)
    }

    /// Sends an HTTP request. Returns the status and the body.
    pub(crate) async fn http(address: SocketAddr, head: &str) -> (u16, String) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let (line, body) = head.split_once("\n\n").unwrap_or((head, ""));
        let length = body.len();
        let request =
            format!("{line}\nHost: localhost\nConnection: close\nContent-Length: {length}\n\n").replace('\n', "\r\n");
        socket.write_all(format!("{request}{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

/// A node over a session.
pub(crate) struct Node {
    name: String,
    incarnation: u64,
    requests: mpsc::Sender<wire::Request>,
    replies: Streaming<wire::Reply>,
}

impl Node {
    pub(crate) async fn connect(serving: &Serving, name: &str, incarnation: u64) -> Self {
        let (requests, receiver) = mpsc::channel(16);
        let replies = serving.client().await.session(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { name: name.to_owned(), incarnation, requests, replies }
    }

    pub(crate) async fn say(&self, op: wire::request::Op) {
        let node = Some(wire::Node { name: self.name.clone(), incarnation: self.incarnation });
        self.requests.send(wire::Request { id: 1, node, op: Some(op) }).await.unwrap();
    }

    pub(crate) async fn join(&self) {
        self.say(wire::request::Op::Join(wire::Join::default())).await;
    }

    pub(crate) async fn join_with(&self, processes: u32) {
        self.say(wire::request::Op::Join(wire::Join { processes, survives: false, after: None })).await;
    }

    /// The next message about the world that satisfies `wanted`.
    pub(crate) async fn world(&mut self, wanted: impl Fn(&wire::World) -> bool) -> wire::World {
        let found = async {
            loop {
                let reply = self.replies.message().await.unwrap().expect("the session is open");
                if let Some(wire::reply::Result::World(world)) = reply.result
                    && wanted(&world)
                {
                    return world;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), found).await.expect("the world comes in time")
    }

    /// Sends a request. Returns its answer.
    pub(crate) async fn ask(&mut self, op: wire::request::Op) -> wire::reply::Result {
        self.say(op).await;
        self.answer().await
    }

    /// The next answer to a request. Changes of the world are skipped.
    pub(crate) async fn answer(&mut self) -> wire::reply::Result {
        let found = async {
            loop {
                let reply = self.replies.message().await.unwrap().expect("the session is open");
                if reply.id != 0 {
                    return reply.result.expect("a reply has a result");
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), found).await.expect("the answer comes in time")
    }

    pub(crate) async fn complete(&mut self) -> wire::World {
        self.world(|world| world.state() == wire::world::MemberState::InWorld && world.restart.is_empty()).await
    }
}

/// Sends one request outside of a session. Returns its answer.
pub(crate) async fn call(serving: &Serving, op: wire::request::Op) -> wire::reply::Result {
    let node = Some(wire::Node { name: "caller".to_owned(), incarnation: 1 });
    let request = wire::Request { id: 5, node, op: Some(op) };
    let reply = serving.client().await.call(request).await.unwrap().into_inner();
    assert_eq!((reply.id, reply.generation > 0), (5, true));
    reply.result.unwrap()
}
