//! The port of a static rendezvous, which serves the master to launchers and the store to the workers' programs.
//!
//! torchrun's first node has a TCPStore there, and a program with `init_method="tcp://HOST:PORT"` connects to it. A TCPStore
//! client begins with the byte 0, a client of the master with a letter. The port passes each connection on unchanged.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::copy;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How long a client may take to send its first byte.
const FIRST_BYTE: Duration = Duration::from_secs(10);
/// How long a client of the store waits for a round to begin.
const NEXT_ROUND: Duration = Duration::from_secs(30);
/// The pause after a failed accept: at the descriptor limit, accept fails at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The first byte of a TCPStore client, which sends VALIDATE.
const VALIDATE: u8 = 0;

/// Where the connections go.
#[derive(Debug, Clone)]
pub struct Destinations {
    pub master: SocketAddr,
    /// The store of the current round.
    pub store: watch::Receiver<Option<SocketAddr>>,
    /// Whether other machines may use the store, which knows no token.
    pub store_for_others: bool,
}

/// Serves the port for ever.
pub async fn serve(port: TcpListener, destinations: Destinations) {
    loop {
        match port.accept().await {
            Ok((client, peer)) => {
                let destinations = destinations.clone();
                tokio::spawn(async move {
                    if let Err(error) = forward(client, peer, destinations).await {
                        tracing::debug!(%peer, %error, "a connection to the rendezvous ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections to the rendezvous; trying again");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn forward(client: TcpStream, peer: SocketAddr, mut to: Destinations) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut first = [0; 1];
    if timeout(FIRST_BYTE, client.peek(&mut first)).await?? == 0 {
        return Ok(());
    }
    let address = match first {
        [VALIDATE] if !to.store_for_others && !is_of_this_machine(&client, peer)? => {
            tracing::warn!(%peer, "the store is closed to other machines, because the job has a token and the store has none");
            return Ok(());
        }
        [VALIDATE] => {
            let next = timeout(NEXT_ROUND, to.store.wait_for(Option::is_some)).await?;
            let Some(address) = *next.map_err(io::Error::other)? else { return Ok(()) };
            address
        }
        _ => to.master,
    };
    let server = TcpStream::connect(address).await?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    // The end of one direction ends both. Otherwise a client could hold a connection that the server has given up.
    tokio::select! {
        copied = copy(&mut from_client, &mut to_server) => copied?,
        copied = copy(&mut from_server, &mut to_client) => copied?,
    };
    Ok(())
}

fn is_of_this_machine(client: &TcpStream, peer: SocketAddr) -> io::Result<bool> {
    Ok(peer.ip().is_loopback() || peer.ip() == client.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// A server that greets each client with its name and the first byte that it reads.
    async fn greeter(name: u8) -> SocketAddr {
        let (listener, address) = listener().await;
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let first = client.read_u8().await.unwrap();
                client.write_all(&[name, first]).await.unwrap();
            }
        });
        address
    }

    async fn greeting(port: SocketAddr, first: u8) -> Vec<u8> {
        let mut client = TcpStream::connect(port).await.unwrap();
        client.write_u8(first).await.unwrap();
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        read
    }

    #[tokio::test]
    async fn the_first_byte_tells_the_clients_of_the_store_from_those_of_the_master() {
        let (port, address) = listener().await;
        let (current, store) = watch::channel(None);
        let destinations = Destinations { master: greeter(b'm').await, store, store_for_others: false };
        let serving = tokio::spawn(serve(port, destinations));
        assert_eq!(greeting(address, b'P').await, b"mP");
        let early = tokio::spawn(greeting(address, VALIDATE));
        current.send_replace(Some(greeter(b's').await));
        assert_eq!(early.await.unwrap(), [b's', VALIDATE], "a client waits for the round to begin");
        assert_eq!(greeting(address, VALIDATE).await, [b's', VALIDATE]);
        serving.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_or_waits_for_no_round_is_closed() {
        let (port, address) = listener().await;
        let (_current, store) = watch::channel(None);
        let serving = tokio::spawn(serve(port, Destinations { master: address, store, store_for_others: true }));
        let mut silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(silent.read(&mut [0; 1]).await.unwrap(), 0);
        let mut early = TcpStream::connect(address).await.unwrap();
        early.write_u8(VALIDATE).await.unwrap();
        // The byte that was sent is never read, so the connection may end with a reset.
        assert!(matches!(early.read(&mut [0; 1]).await, Ok(0) | Err(_)));
        serving.abort();
    }
}
