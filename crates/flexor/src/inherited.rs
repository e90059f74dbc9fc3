//! Listening sockets that whoever started a server has opened and passed down, as systemd does it (`LISTEN_FDS`): a server
//! that is started again with the same sockets has lost no port, and no client that was just connecting.

use std::io;
use std::net::SocketAddr;

use anyhow::Context;
use listenfd::ListenFd;
use tokio::net::TcpListener;

/// The sockets of this process, from the first.
pub struct Inherited {
    sockets: ListenFd,
    next: usize,
}

impl Inherited {
    /// Those that were passed down; none, usually.
    pub fn of_this_process() -> Self {
        Self { sockets: ListenFd::from_env(), next: 0 }
    }

    /// The next socket that was passed down, or a new one at `address`.
    pub async fn listen(&mut self, address: SocketAddr, option: &str, hint: &str) -> anyhow::Result<TcpListener> {
        if self.next < self.sockets.len() {
            let taken = self.take().with_context(|| format!("socket {} of LISTEN_FDS for {option}", self.next));
            self.next += 1;
            return taken;
        }
        let bound = TcpListener::bind(address).await;
        bound.with_context(|| format!("{option} {address} cannot be listened on; {hint}"))
    }

    fn take(&mut self) -> io::Result<TcpListener> {
        let socket = self.sockets.take_tcp_listener(self.next)?;
        let socket = socket.ok_or_else(|| io::Error::other("it was not passed down"))?;
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket)
    }
}
