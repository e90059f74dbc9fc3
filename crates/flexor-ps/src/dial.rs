//! Connecting to the master and to servers: one way, with the same settings for all.
//!
//! Connections are TCP unless whoever starts a server, a client or a worker brings a [`Dialer`] of its own, as the simulation does.
//! A connection at whose other end nobody answers any more is broken within seconds, or a client would wait for ever for
//! the answer of a machine that is gone. Whom to connect to, and what is said there, is decided elsewhere.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use flexor_client::{Jitter, Reconnect};
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::transport::{Channel, Endpoint, Error, Uri};
use tonic::{Code, Status};

/// No message of a client, a server or the master is longer.
pub const MAX_MESSAGE: usize = 64 << 20;

/// What may be on its way in one call, and in all calls of a connection.
const WINDOWS: (u32, u32) = (8 << 20, 16 << 20);
/// How often it is looked whether the other end is still there, and how long it has to answer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(4));
/// How long making a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is being made.
pub type Opening = BoxFuture<'static, io::Result<Box<dyn Stream>>>;

/// What makes connections, from the address.
type Open = dyn Fn(&str) -> Opening + Send + Sync;

/// How connections are made; over TCP, unless it is said otherwise.
#[derive(Clone, Default)]
pub struct Dialer {
    open: Option<Arc<Open>>,
    jitter: Jitter,
}

impl Dialer {
    /// Connections are made by `open`, from the address. The jitter of reconnecting comes from `jitter`: a simulation
    /// holds it fixed.
    pub fn new(jitter: Jitter, open: impl Fn(&str) -> Opening + Send + Sync + 'static) -> Self {
        Self { open: Some(Arc::new(open)), jitter }
    }

    /// The way to an address; an error if it is none.
    pub fn way_to(&self, address: &str) -> Result<Way, Error> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_LIMIT)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .keep_alive_while_idle(true);
        Ok(Way { endpoint, dialer: self.clone() })
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.open.is_some() { "Dialer(own)" } else { "Dialer(TCP)" })
    }
}

/// Whether a call need not be tried again: who was asked has understood it, and says no.
pub fn is_final(status: &Status) -> bool {
    matches!(status.code(), Code::FailedPrecondition | Code::PermissionDenied | Code::Unauthenticated)
}

/// The way to an address, to be gone as often as needed.
#[derive(Debug, Clone)]
pub struct Way {
    endpoint: Endpoint,
    dialer: Dialer,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.uri().fmt(f)
    }
}

impl Way {
    /// The pace of a loop that keeps a connection to this address.
    pub fn reconnect(&self) -> Reconnect {
        Reconnect::new(self.dialer.jitter)
    }

    /// Connects.
    pub async fn connect(&self) -> Result<Channel, Error> {
        let Some(open) = self.dialer.open.clone() else { return self.endpoint.connect().await };
        let connector = tower::service_fn(move |to: Uri| {
            let opening = open(to.authority().map_or("", |authority| authority.as_str()));
            async move { opening.await.map(TokioIo::new) }
        });
        self.endpoint.connect_with_connector(connector).await
    }
}
