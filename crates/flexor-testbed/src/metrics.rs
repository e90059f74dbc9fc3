//! `metrics.k8s.io` for horizontal pod autoscalers on nodes where nothing runs: a Deployment says how many queries a
//! second it serves, and its ready pods share the work.
//!
//! | annotation of a Deployment | what its ready pods use |
//! |---|---|
//! | `testbed.flexor.dev/qps` | this many milliseconds of CPU a second, in equal parts |
//!
//! A Deployment without the annotation has no figures, as in a cluster without a metrics server. [`usage`] computes them,
//! [`answers`] puts them into the words of the API, and [`registration`] tells the API server where to ask. It does not
//! verify the certificate, which lives as long as the server.

mod answers;
mod registration;
mod usage;

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context as _;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

use crate::Cluster;

/// The annotation of a Deployment with its queries a second. A query takes a millisecond of CPU.
pub const QPS: &str = "testbed.flexor.dev/qps";

/// A server of the metrics of one cluster; dropping it ends it. The cluster's API server then answers that it is
/// unavailable.
#[derive(Debug)]
pub struct MetricsServer {
    task: JoinHandle<()>,
}

impl Cluster {
    /// Serves `metrics.k8s.io` and waits until the API server passes its requests on. To be called in the tokio runtime
    /// that is to serve it.
    pub async fn serve_metrics(&self) -> anyhow::Result<MetricsServer> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = self.listen(any_port).context("listen for requests for metrics")?;
        let port = listener.local_addr()?.port();
        let client = self.client().await?;
        let server = MetricsServer { task: tokio::spawn(serve(listener, acceptor()?, client.clone())) };
        registration::register(&client, port).await?;
        Ok(server)
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// TLS with a certificate of its own.
fn acceptor() -> anyhow::Result<TlsAcceptor> {
    let own = rcgen::generate_simple_self_signed([registration::HOST.to_owned()])?;
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections; they end with this future.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, client: Client) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(converse(stream, acceptor.clone(), client.clone()))),
                Err(error) => return eprintln!("no more metrics are served: {error}"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers the requests of a connection. One that breaks is the client's to open again.
async fn converse(stream: TcpStream, acceptor: TlsAcceptor, client: Client) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| {
        let client = client.clone();
        async move { Ok::<_, Infallible>(answers::answer(&client, &request).await) }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
