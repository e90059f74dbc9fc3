//! What stands between servers and their master, and can hold back what either says to the other.
//!
//! So a test sees the two in any state that a slow network could put them in, for as long as it looks.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::servers_client::ServersClient;
use flexor_wire::master::v1::servers_server::{Servers, ServersServer};
use futures::Stream;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::cluster::{free, threads};

/// Something on its way.
pub(crate) enum Said<'a> {
    ToMaster(&'a wire::from_server::Message),
    /// With the name of the server.
    ToServer(&'a str, &'a wire::to_server::Message),
}

/// Whether something is to be held back.
pub(crate) type IsHeld = fn(&Said<'_>) -> bool;

/// A gate; gone when it is dropped.
pub(crate) struct Gate {
    address: SocketAddr,
    state: Arc<State>,
    runtime: Option<Runtime>,
}

struct State {
    master: SocketAddr,
    is_held: Mutex<Option<IsHeld>>,
    /// The server that the first message is of, or for, that was held back.
    caught: watch::Sender<Option<String>>,
    is_open: watch::Sender<bool>,
}

impl Gate {
    /// A gate before this master. It is open.
    pub(crate) fn before(master: SocketAddr) -> Self {
        let (caught, is_open) = (watch::Sender::new(None), watch::Sender::new(true));
        let state = Arc::new(State { master, is_held: Mutex::default(), caught, is_open });
        let runtime = threads();
        let inside = runtime.enter();
        let listener = free();
        let address = listener.local_addr().unwrap();
        let service = ServersServer::new(Guard(state.clone()));
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        drop(inside);
        Self { address, state, runtime: Some(runtime) }
    }

    /// Where servers find it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds back all that is such, and what comes behind it.
    pub(crate) fn hold(&self, is_held: IsHeld) {
        self.state.is_open.send_replace(false);
        *self.state.is_held.lock().unwrap() = Some(is_held);
    }

    /// Waits until something is held back; whose it is.
    pub(crate) async fn caught(&self) -> String {
        let mut caught = self.state.caught.subscribe();
        let found = tokio::time::timeout(Duration::from_secs(60), caught.wait_for(Option::is_some)).await;
        found.expect("nothing of the kind is said").unwrap().clone().unwrap()
    }

    /// Lets everything pass.
    pub(crate) fn open(&self) {
        *self.state.is_held.lock().unwrap() = None;
        self.state.is_open.send_replace(true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl State {
    async fn pass(&self, server: &str, said: Said<'_>) {
        let is_held = self.is_held.lock().unwrap().is_some_and(|is_held| is_held(&said));
        if is_held {
            self.caught.send_if_modified(|caught| {
                let is_first = caught.is_none();
                caught.get_or_insert_with(|| server.to_owned());
                is_first
            });
            let _ = self.is_open.subscribe().wait_for(|is_open| *is_open).await;
        }
    }
}

struct Guard(Arc<State>);

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Servers for Guard {
    type ServeStream = Messages<wire::ToServer>;
    type FollowStream = Messages<wire::ServerMap>;

    async fn serve(&self, said: Request<Streaming<wire::FromServer>>) -> Result<Response<Self::ServeStream>, Status> {
        let away = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        let mut master = ServersClient::connect(format!("http://{}", self.0.master)).await.map_err(away)?;
        let mut said = said.into_inner();
        let hello = said.message().await?.ok_or_else(|| Status::cancelled("no hello"))?;
        let server = match &hello.message {
            Some(wire::from_server::Message::Hello(hello)) => hello.server.clone().unwrap_or_default().name,
            _ => return Err(Status::invalid_argument("the first message is no hello")),
        };
        let (sender, receiver) = mpsc::channel(16);
        sender.send(hello).await.map_err(|_| Status::cancelled("the master is away"))?;
        let told = master.serve(ReceiverStream::new(receiver)).await?.into_inner();
        let (state, name) = (self.0.clone(), server.clone());
        tokio::spawn(async move {
            while let Ok(Some(next)) = said.message().await {
                if let Some(message) = &next.message {
                    state.pass(&name, Said::ToMaster(message)).await;
                }
                if sender.send(next).await.is_err() {
                    return;
                }
            }
        });
        let told = futures::stream::unfold((told, self.0.clone(), server), async |(mut told, state, server)| {
            let next = told.message().await.ok()??;
            if let Some(message) = &next.message {
                state.pass(&server, Said::ToServer(&server, message)).await;
            }
            Some((Ok(next), (told, state, server)))
        });
        Ok(Response::new(Box::pin(told)))
    }

    async fn follow(&self, _: Request<wire::FollowServers>) -> Result<Response<Self::FollowStream>, Status> {
        Err(Status::unimplemented("clients speak to the master"))
    }

    async fn declare(&self, _: Request<wire::DeclareModel>) -> Result<Response<wire::Done>, Status> {
        Err(Status::unimplemented("clients speak to the master"))
    }

    async fn save(&self, _: Request<wire::SaveModel>) -> Result<Response<wire::ModelSaved>, Status> {
        Err(Status::unimplemented("clients speak to the master"))
    }
}
