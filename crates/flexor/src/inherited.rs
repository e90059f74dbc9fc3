//! Listening sockets that the parent process has opened and passed on, as systemd does (`LISTEN_FDS`). A server that is
//! restarted with the same sockets keeps its ports, and loses no client that is just connecting.

use std::io;
use std::net::SocketAddr;

use anyhow::Context;
use listenfd::ListenFd;
use tokio::net::TcpListener;

/// The inherited sockets of this process. They are used in order.
pub struct InheritedSockets {
    sockets: ListenFd,
    next: usize,
}

impl InheritedSockets {
    pub fn of_this_process() -> Self {
        Self { sockets: ListenFd::from_env(), next: 0 }
    }

    /// Returns the next inherited socket, or binds a new one at `address`.
    pub async fn listen(&mut self, address: SocketAddr, option: &str, hint: &str) -> anyhow::Result<TcpListener> {
        if self.next < self.sockets.len() {
            let inherited = self.take().with_context(|| format!("socket {} of LISTEN_FDS for {option}", self.next));
            self.next += 1;
            return inherited;
        }
        let bound = TcpListener::bind(address).await;
        bound.with_context(|| format!("cannot listen on {option} {address}; {hint}"))
    }

    fn take(&mut self) -> io::Result<TcpListener> {
        let socket = self.sockets.take_tcp_listener(self.next)?;
        let socket = socket.ok_or_else(|| io::Error::other("it was not passed on"))?;
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket)
    }
}
