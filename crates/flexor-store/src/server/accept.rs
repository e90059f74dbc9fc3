//! New connections: the listening socket and the loop that accepts from it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::TcpListener;
use tracing::warn;

use super::hub::Hub;
use super::reader;
use crate::service::Service;

/// The most connections that may wait to be accepted. The kernel lowers it to the machine's limit.
const BACKLOG: i32 = 4096;
/// The keepalive time and interval. A vanished peer is noticed after about four intervals.
const KEEPALIVE: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
/// The pause after a failed accept, which usually means that no file descriptor is left.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Listens on all addresses of the machine, IPv6 and IPv4, or on IPv4 alone if there is no IPv6.
pub fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    let both = || listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), Domain::IPV6);
    let listener = both().or_else(|_| listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), Domain::IPV4))?;
    TcpListener::from_std(listener)
}

fn listen(address: SocketAddr, domain: Domain) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(domain, Type::STREAM, None)?;
    if domain == Domain::IPV6 {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Sets the options that connections inherit from their listener on Linux, which saves five system calls for each, and
/// raises the backlog.
pub(super) fn prepare(listener: &TcpListener) -> io::Result<()> {
    let socket = SockRef::from(listener);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_nodelay(true)?;
    socket.listen(BACKLOG)
}

/// Accepts connections for ever.
pub(super) async fn accept<S: Service>(listener: &TcpListener, hub: &Arc<Hub<S>>) {
    // Logs one line per shortage, not one per refused client.
    let mut is_full = false;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (read, write) = stream.into_split();
                if let Some(connection) = hub.admit(write, peer) {
                    is_full = false;
                    tokio::spawn(reader::serve(hub.clone(), connection, read));
                } else if !std::mem::replace(&mut is_full, true) {
                    warn!(%peer, limit = hub.limits.connections, "too many connections; refusing further ones");
                }
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection; is the limit of open files (ulimit -n) too low?");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_inherit_keepalive_and_nodelay() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        prepare(&listener).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let socket = SockRef::from(&accepted);
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), KEEPALIVE);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), KEEPALIVE_PROBES);
    }

    #[tokio::test]
    async fn everywhere_means_ipv4_too() {
        let listener = listen_everywhere(0).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}
