//! A relay in front of a newcomer that records the time of its first byte, from which a join is measured.
//!
//! The time before that is the start of Python and torch.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

/// A relay to one endpoint. Its threads end with the connections, or with the process.
#[derive(Debug)]
pub(super) struct FirstByteRelay {
    endpoint: String,
    first: Receiver<SystemTime>,
}

impl FirstByteRelay {
    pub(super) fn start(upstream: &str) -> Result<FirstByteRelay> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
        let endpoint = listener.local_addr()?.to_string();
        let (seen, first) = channel();
        let upstream = upstream.to_owned();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (seen, upstream) = (seen.clone(), upstream.clone());
                // A connection that fails is closed; the newcomer retries by itself.
                thread::spawn(move || relay(client, &upstream, &seen));
            }
        });
        Ok(FirstByteRelay { endpoint, first })
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Waits for the first byte and returns its time, whether or not the store was there to receive it.
    pub(super) fn first_byte(&self, deadline: Duration) -> Result<SystemTime> {
        self.first.recv_timeout(deadline).with_context(|| format!("no byte of the newcomer after {deadline:?}"))
    }
}

/// Serves one connection until either side ends it. It is the client that speaks first.
fn relay(mut client: TcpStream, upstream: &str, seen: &Sender<SystemTime>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut first = [0; 1];
    client.read_exact(&mut first)?;
    // The receiver is gone once the join was measured.
    let _ = seen.send(SystemTime::now());
    let mut server = TcpStream::connect(upstream)?;
    server.set_nodelay(true)?;
    server.write_all(&first)?;
    let (from_server, to_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || pump(from_server, to_client));
    pump(client, server);
    Ok(())
}

/// Copies until either side closes, and then closes both.
fn pump(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_both_ways_and_the_first_is_noted() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = FirstByteRelay::start(&server.local_addr().unwrap().to_string()).unwrap();
        let mut client = TcpStream::connect(relay.endpoint()).unwrap();
        assert!(relay.first_byte(Duration::ZERO).is_err());
        client.write_all(b"ping").unwrap();
        let (mut accepted, _) = server.accept().unwrap();
        let mut heard = [0; 4];
        accepted.read_exact(&mut heard).unwrap();
        accepted.write_all(&heard).unwrap();
        client.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"ping");
        assert!(relay.first_byte(Duration::from_secs(5)).unwrap() <= SystemTime::now());
        drop(accepted);
        assert_eq!(client.read(&mut heard).unwrap(), 0, "the end passes too");
    }
}
