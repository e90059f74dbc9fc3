//! Connections that are counted while they are open.
//!
//! A client that is still reading when its connection is closed loses what it has not read yet. So the server waits until
//! its clients have hung up before it ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// The number of open connections.
#[derive(Debug, Clone)]
pub(super) struct Connections(Arc<watch::Sender<usize>>);

pub(super) struct Connection {
    stream: UnixStream,
    count: Connections,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Counts a connection until it is dropped.
    pub(super) fn add(&self, stream: UnixStream) -> Connection {
        self.0.send_modify(|open| *open += 1);
        Connection { stream, count: self.clone() }
    }

    /// Waits until none is open.
    pub(super) async fn all_closed(&self) {
        // `self` holds the sender, so this cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open == 0).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.count.0.send_modify(|open| *open -= 1);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
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
