//! A connection that is counted while it is open.
//!
//! A peer that is still reading when its connection is closed loses what it has not read yet, so whoever ends the service
//! waits until its peers have hung up.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tonic::transport::server::Connected;

/// How many connections are open.
#[derive(Debug, Clone)]
pub(super) struct Conversations(Arc<watch::Sender<usize>>);

/// A connection.
pub(super) struct Conversation {
    stream: UnixStream,
    count: Conversations,
}

impl Conversations {
    /// None yet.
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// One more, until it is dropped.
    pub(super) fn begin(&self, stream: UnixStream) -> Conversation {
        self.0.send_modify(|open| *open += 1);
        Conversation { stream, count: self.clone() }
    }

    /// Waits until none is open.
    pub(super) async fn end(&self) {
        // The sender is ours, so that this cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open == 0).await;
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.count.0.send_modify(|open| *open -= 1);
    }
}

impl Connected for Conversation {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Conversation {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Conversation {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
