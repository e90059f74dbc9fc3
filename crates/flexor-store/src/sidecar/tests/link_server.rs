//! The simulated master behind a real port, on its own runtime, which can be killed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flexor_wire::master::v1::{
    FromSidecar, Refusal, ToSidecar,
    from_sidecar::Message,
    store_link_server::{StoreLink, StoreLinkServer},
    to_sidecar,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use crate::sidecar::MAX_LINK_MESSAGE;
use crate::sidecar::simulated_master::Master;

type Outgoing = UnboundedSender<Result<ToSidecar, Status>>;

/// The state of the master's process.
pub(super) struct MasterState {
    pub(super) master: Master,
    links: HashMap<u64, Outgoing>,
    /// All messages of sidecars.
    pub(super) received: Vec<Message>,
    /// The authorization header of each call.
    pub(super) authorizations: Vec<Option<String>>,
    /// Sent in place of Welcome, if set.
    pub(super) refusal: Option<Refusal>,
}

/// A master that runs until it is killed or dropped.
pub(super) struct LinkServer {
    pub(super) address: SocketAddr,
    pub(super) state: Arc<Mutex<MasterState>>,
    runtime: Option<Runtime>,
}

impl LinkServer {
    /// Starts a first master, for one sidecar, at a free port.
    pub(super) fn start() -> LinkServer {
        LinkServer::of(Master::first(1), SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts a master at the port of an earlier one.
    pub(super) fn of(master: Master, address: SocketAddr) -> LinkServer {
        let state = MasterState {
            master,
            links: HashMap::new(),
            received: Vec::new(),
            authorizations: Vec::new(),
            refusal: None,
        };
        let state = Arc::new(Mutex::new(state));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let entered = runtime.enter();
        let listener = std::net::TcpListener::from(bind(address));
        let address = listener.local_addr().unwrap();
        let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
        let service = StoreLinkServer::new(Service(state.clone())).max_decoding_message_size(MAX_LINK_MESSAGE);
        runtime.spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        runtime.spawn(write_journal(state.clone()));
        drop(entered);
        LinkServer { address, state, runtime: Some(runtime) }
    }

    /// Kills the process. Returns its successor.
    pub(super) fn kill(mut self) -> Master {
        self.end();
        self.with(|state| state.master.successor())
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&mut MasterState) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    /// Waits until all threads have ended. Uses a thread, because a task cannot drop a runtime.
    fn end(&mut self) {
        let runtime = self.runtime.take();
        std::thread::spawn(move || drop(runtime)).join().unwrap();
    }
}

impl Drop for LinkServer {
    fn drop(&mut self) {
        self.end();
    }
}

fn bind(address: SocketAddr) -> socket2::Socket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(64).unwrap();
    socket
}

/// Makes a few records durable every 2 ms.
async fn write_journal(state: Arc<Mutex<MasterState>>) {
    loop {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let mut state = state.lock().unwrap();
        state.master.write_journal(8);
        state.send();
    }
}

impl MasterState {
    fn send(&mut self) {
        for (link, outgoing) in &self.links {
            for message in self.master.take_messages(*link) {
                let _ = outgoing.send(Ok(ToSidecar { message: Some(message) }));
            }
        }
    }

    fn receive(&mut self, link: &mut Option<u64>, message: Message, outgoing: &Outgoing) {
        self.received.push(message.clone());
        if let (Message::Hello(_), Some(refusal)) = (&message, self.refusal.clone()) {
            let message = Some(to_sidecar::Message::Refusal(refusal));
            let _ = outgoing.send(Ok(ToSidecar { message }));
            return;
        }
        if let Message::Hello(hello) = &message {
            *link = Some(hello.link);
            self.links.insert(hello.link, outgoing.clone());
        }
        if let Some(link) = *link {
            self.master.receive(link, message);
            self.send();
        }
    }
}

struct Service(Arc<Mutex<MasterState>>);

#[tonic::async_trait]
impl StoreLink for Service {
    type LinkStream = UnboundedReceiverStream<Result<ToSidecar, Status>>;

    async fn link(&self, request: Request<Streaming<FromSidecar>>) -> Result<Response<Self::LinkStream>, Status> {
        let authorizations = request.metadata().get("authorization").map(|token| token.to_str().unwrap().to_owned());
        self.0.lock().unwrap().authorizations.push(authorizations);
        let (outgoing, messages) = unbounded_channel();
        let (state, mut incoming) = (self.0.clone(), request.into_inner());
        tokio::spawn(async move {
            let mut link = None;
            while let Ok(Some(FromSidecar { message: Some(message) })) = incoming.message().await {
                state.lock().unwrap().receive(&mut link, message, &outgoing);
            }
            if let Some(link) = link {
                let mut state = state.lock().unwrap();
                state.links.remove(&link);
                state.master.link_lost(link);
            }
        });
        Ok(Response::new(UnboundedReceiverStream::new(messages)))
    }
}
