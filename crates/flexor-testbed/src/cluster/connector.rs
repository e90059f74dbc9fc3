//! Connects to an API server in another network namespace.
//!
//! A socket belongs to the namespace of the thread that created it. A short-lived thread therefore enters the cluster's
//! namespace and connects; the socket then works from any thread. On loopback it is a plain connection.

use std::{
    fs::File,
    future::Future,
    io,
    net::SocketAddr,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::{
    Client, Config,
    client::{ConfigExt as _, retry::RetryPolicy},
    config::{KubeConfigOptions, Kubeconfig},
};
use nix::sched::{CloneFlags, setns};
use tokio::net::TcpStream;
use tower::{BoxError, Service, ServiceBuilder, retry::RetryLayer};

use crate::keeper::Sandbox;

/// A client for the API server at `address` in `sandbox`, with the identity of the kubeconfig.
pub(super) async fn client(kubeconfig: &Path, address: SocketAddr, sandbox: &Sandbox) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let https = config.rustls_https_connector_with_connector(Connector::new(sandbox, address))?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(RetryLayer::new(RetryPolicy::server_retry()))
        .map_err(BoxError::from)
        .service(hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(https));
    Ok(Client::new(service, config.default_namespace))
}

/// Connects to one address in one sandbox.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    address: SocketAddr,
    network: Option<Arc<File>>,
}

impl Connector {
    pub(super) fn new(sandbox: &Sandbox, address: SocketAddr) -> Self {
        let network = match sandbox {
            Sandbox::Namespaces { network, .. } => Some(Arc::clone(network)),
            Sandbox::Loopback { .. } => None,
        };
        Self { address, network }
    }

    pub(super) async fn connect(self) -> io::Result<TcpStream> {
        let stream = match self.network {
            None => TcpStream::connect(self.address).await?,
            Some(network) => connect_in(network, self.address).await?,
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// hyper's interface of a connector. The client has only one address, so the target is ignored.
impl<Target> Service<Target> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Target) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect().await.map(TokioIo::new) })
    }
}

async fn connect_in(network: Arc<File>, address: SocketAddr) -> io::Result<TcpStream> {
    let (answer, connected) = tokio::sync::oneshot::channel();
    // Not a thread of tokio's pool: it must not go back there with another network.
    std::thread::Builder::new().name("testbed-connect".into()).spawn(move || {
        let stream = setns(&*network, CloneFlags::CLONE_NEWNET)
            .map_err(io::Error::from)
            .and_then(|()| std::net::TcpStream::connect(address));
        // The receiver is gone if the request was cancelled.
        let _ = answer.send(stream);
    })?;
    let stream = connected.await.map_err(|_| io::Error::other("the connecting thread panicked"))??;
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}
