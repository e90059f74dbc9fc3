//! A proxy between servers and their master that can hold back messages in both directions.
//!
//! A test can thus keep both sides in any state that a slow network could cause.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::ps_membership_client::PsMembershipClient;
use flexor_wire::master::v1::ps_membership_server::{PsMembership, PsMembershipServer};
use futures::Stream;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::cluster::{free, threads};

/// A message in transit.
pub(crate) enum GatedMessage<'a> {
    ToMaster(&'a wire::from_server::Message),
    /// The name of the server, and the message.
    ToServer(&'a str, &'a wire::to_server::Message),
}

/// Selects the messages to hold back.
pub(crate) type IsHeld = fn(&GatedMessage<'_>) -> bool;

/// A running proxy; dropping it stops it.
pub(crate) struct Gate {
    address: SocketAddr,
    state: Arc<GateState>,
    runtime: Option<Runtime>,
}

struct GateState {
    master: SocketAddr,
    is_held: Mutex<Option<IsHeld>>,
    /// The server of the first message that was held back.
    caught: watch::Sender<Option<String>>,
    is_open: watch::Sender<bool>,
}

impl Gate {
    /// An open gate in front of this master.
    pub(crate) fn before(master: SocketAddr) -> Self {
        let (caught, is_open) = (watch::Sender::new(None), watch::Sender::new(true));
        let state = Arc::new(GateState { master, is_held: Mutex::default(), caught, is_open });
        let runtime = threads();
        let guard = runtime.enter();
        let listener = free();
        let address = listener.local_addr().unwrap();
        let service = PsMembershipServer::new(Proxy(state.clone()));
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
        drop(guard);
        Self { address, state, runtime: Some(runtime) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds back matching messages and everything behind them on the same stream.
    pub(crate) fn hold(&self, is_held: IsHeld) {
        self.state.is_open.send_replace(false);
        *self.state.is_held.lock().unwrap() = Some(is_held);
    }

    /// Waits until a message is held back. Returns the server of the first one.
    pub(crate) async fn caught(&self) -> String {
        let mut caught = self.state.caught.subscribe();
        let found = tokio::time::timeout(Duration::from_secs(60), caught.wait_for(Option::is_some)).await;
        found.expect("a matching message is sent").unwrap().clone().unwrap()
    }

    /// Releases all messages.
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

impl GateState {
    async fn pass(&self, server: &str, message: GatedMessage<'_>) {
        let is_held = self.is_held.lock().unwrap().is_some_and(|is_held| is_held(&message));
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

struct Proxy(Arc<GateState>);

type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl PsMembership for Proxy {
    type ServeStream = Messages<wire::ToServer>;
    type WatchPartitionMapStream = Messages<wire::PartitionMap>;

    async fn serve(
        &self,
        request: Request<Streaming<wire::FromServer>>,
    ) -> Result<Response<Self::ServeStream>, Status> {
        let away = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        let mut master = PsMembershipClient::connect(format!("http://{}", self.0.master)).await.map_err(away)?;
        let mut from_server = request.into_inner();
        let hello = from_server.message().await?.ok_or_else(|| Status::cancelled("no hello"))?;
        let server = match &hello.message {
            Some(wire::from_server::Message::Hello(hello)) => hello.server.clone().unwrap_or_default().name,
            _ => return Err(Status::invalid_argument("the first message is no hello")),
        };
        let (sender, receiver) = mpsc::channel(16);
        sender.send(hello).await.map_err(|_| Status::cancelled("the master is away"))?;
        let from_master = master.serve(ReceiverStream::new(receiver)).await?.into_inner();
        let (state, name) = (self.0.clone(), server.clone());
        tokio::spawn(async move {
            while let Ok(Some(next)) = from_server.message().await {
                if let Some(message) = &next.message {
                    state.pass(&name, GatedMessage::ToMaster(message)).await;
                }
                if sender.send(next).await.is_err() {
                    return;
                }
            }
        });
        let from_master =
            futures::stream::unfold((from_master, self.0.clone(), server), async |(mut from_master, state, server)| {
                let next = from_master.message().await.ok()??;
                if let Some(message) = &next.message {
                    state.pass(&server, GatedMessage::ToServer(&server, message)).await;
                }
                Some((Ok(next), (from_master, state, server)))
            });
        Ok(Response::new(Box::pin(from_master)))
    }

    async fn watch_partition_map(
        &self,
        _: Request<wire::WatchPartitionMapRequest>,
    ) -> Result<Response<Self::WatchPartitionMapStream>, Status> {
        Err(Status::unimplemented("clients speak to the master"))
    }

    async fn declare_model(&self, _: Request<wire::DeclareModelRequest>) -> Result<Response<wire::Done>, Status> {
        Err(Status::unimplemented("clients speak to the master"))
    }

    async fn save_model(&self, _: Request<wire::SaveModelRequest>) -> Result<Response<wire::ModelSaved>, Status> {
        Err(Status::unimplemented("clients speak to the master"))
    }
}
