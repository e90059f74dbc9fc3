//! Opens connections to the master and to servers, with the same settings for all.
//!
//! Connections are TCP unless the caller brings a [`Dialer`] of its own, as the simulation does. Keep-alive breaks a
//! connection to a dead machine within seconds; otherwise a client would wait forever for its reply.

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

/// Size limit of messages between clients, servers and the master.
pub const MAX_MESSAGE: usize = 64 << 20;

/// Flow-control windows of a stream and of a connection, in bytes.
const WINDOWS: (u32, u32) = (8 << 20, 16 << 20);
/// Interval of keep-alive pings, and time limit for the reply.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(4));
/// Time limit for opening a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A bidirectional byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is being opened.
pub type Opening = BoxFuture<'static, io::Result<Box<dyn Stream>>>;

/// Opens a connection to an address.
type Open = dyn Fn(&str) -> Opening + Send + Sync;

/// Opens connections; over TCP by default.
#[derive(Clone, Default)]
pub struct Dialer {
    open: Option<Arc<Open>>,
    jitter: Jitter,
}

impl Dialer {
    /// A dialer that opens connections with `open`. A simulation holds `jitter`, the jitter of reconnects, fixed.
    pub fn new(jitter: Jitter, open: impl Fn(&str) -> Opening + Send + Sync + 'static) -> Self {
        Self { open: Some(Arc::new(open)), jitter }
    }

    /// The endpoint at an address; an error if the address is invalid.
    pub fn endpoint(&self, address: &str) -> Result<DialEndpoint, Error> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_LIMIT)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .keep_alive_timeout(KEEP_ALIVE.1)
            .keep_alive_while_idle(true);
        Ok(DialEndpoint { endpoint, dialer: self.clone() })
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.open.is_some() { "Dialer(own)" } else { "Dialer(TCP)" })
    }
}

/// Whether a retry is pointless: the callee has understood the call, and refuses.
pub fn is_final(status: &Status) -> bool {
    matches!(status.code(), Code::FailedPrecondition | Code::PermissionDenied | Code::Unauthenticated)
}

/// An address to which connections can be opened.
#[derive(Debug, Clone)]
pub struct DialEndpoint {
    endpoint: Endpoint,
    dialer: Dialer,
}

impl fmt::Display for DialEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.uri().fmt(f)
    }
}

impl DialEndpoint {
    /// Paces a loop that keeps a connection to this endpoint.
    pub fn reconnect(&self) -> Reconnect {
        Reconnect::new(self.dialer.jitter)
    }

    pub async fn connect(&self) -> Result<Channel, Error> {
        let Some(open) = self.dialer.open.clone() else { return self.endpoint.connect().await };
        let connector = tower::service_fn(move |to: Uri| {
            let opening = open(to.authority().map_or("", |authority| authority.as_str()));
            async move { opening.await.map(TokioIo::new) }
        });
        self.endpoint.connect_with_connector(connector).await
    }
}
