//! The simulated master behind a real port, on a runtime of its own that can be killed.

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

/// What goes on inside the master's process.
pub(super) struct Inside {
    pub(super) master: Master,
    links: HashMap<u64, Outgoing>,
    /// All that sidecars have said.
    pub(super) heard: Vec<Message>,
    /// The authorization of each call.
    pub(super) shown: Vec<Option<String>>,
    /// Says this in place of a welcome.
    pub(super) refusal: Option<Refusal>,
}

/// A master that runs until it is killed or dropped.
pub(super) struct LinkServer {
    pub(super) address: SocketAddr,
    pub(super) inside: Arc<Mutex<Inside>>,
    runtime: Option<Runtime>,
}

impl LinkServer {
    /// A first master, for one sidecar, at a free port.
    pub(super) fn start() -> LinkServer {
        LinkServer::of(Master::first(1), SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// A master at a port that another one had.
    pub(super) fn of(master: Master, address: SocketAddr) -> LinkServer {
        let inside = Inside { master, links: HashMap::new(), heard: Vec::new(), shown: Vec::new(), refusal: None };
        let inside = Arc::new(Mutex::new(inside));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let entered = runtime.enter();
        let listener = std::net::TcpListener::from(bind(address));
        let address = listener.local_addr().unwrap();
        let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
        let service = StoreLinkServer::new(Service(inside.clone())).max_decoding_message_size(MAX_LINK_MESSAGE);
        runtime.spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        runtime.spawn(write_journal(inside.clone()));
        drop(entered);
        LinkServer { address, inside, runtime: Some(runtime) }
    }

    /// Ends the process without a word; what its successor would know.
    pub(super) fn kill(mut self) -> Master {
        self.end();
        self.with(|inside| inside.master.successor())
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Inside) -> T) -> T {
        look(&mut self.inside.lock().unwrap())
    }

    /// Waits for the threads to end, so that nothing is done or said any more; a runtime cannot be dropped by a task.
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

/// Makes a few changes durable now and then.
async fn write_journal(inside: Arc<Mutex<Inside>>) {
    loop {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let mut inside = inside.lock().unwrap();
        inside.master.write_journal(8);
        inside.send();
    }
}

impl Inside {
    fn send(&mut self) {
        for (link, outgoing) in &self.links {
            for message in self.master.take_messages(*link) {
                let _ = outgoing.send(Ok(ToSidecar { message: Some(message) }));
            }
        }
    }

    fn hear(&mut self, link: &mut Option<u64>, message: Message, outgoing: &Outgoing) {
        self.heard.push(message.clone());
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
            self.master.heard(link, message);
            self.send();
        }
    }
}

struct Service(Arc<Mutex<Inside>>);

#[tonic::async_trait]
impl StoreLink for Service {
    type LinkStream = UnboundedReceiverStream<Result<ToSidecar, Status>>;

    async fn link(&self, request: Request<Streaming<FromSidecar>>) -> Result<Response<Self::LinkStream>, Status> {
        let shown = request.metadata().get("authorization").map(|token| token.to_str().unwrap().to_owned());
        self.0.lock().unwrap().shown.push(shown);
        let (outgoing, messages) = unbounded_channel();
        let (inside, mut incoming) = (self.0.clone(), request.into_inner());
        tokio::spawn(async move {
            let mut link = None;
            while let Ok(Some(FromSidecar { message: Some(message) })) = incoming.message().await {
                inside.lock().unwrap().hear(&mut link, message, &outgoing);
            }
            if let Some(link) = link {
                let mut inside = inside.lock().unwrap();
                inside.links.remove(&link);
                inside.master.link_lost(link);
            }
        });
        Ok(Response::new(UnboundedReceiverStream::new(messages)))
    }
}
