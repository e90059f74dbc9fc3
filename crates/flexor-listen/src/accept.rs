//! The accept loop.
//!
//! The kernel gives a new connection the lowest free descriptor. A connection whose descriptor is close to the limit
//! therefore tells that few are left. Ports for clients close such a connection; ports for probes serve it.

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// The pause after a failed accept, which usually means that no file descriptor is left.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Descriptors that clients leave to probes, journals and logs.
const RESERVED: u64 = 16;
/// How often a shortage that goes on is logged.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// What a port is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Refuses connections while few file descriptors are left.
    Clients,
    /// Answers as long as a file descriptor is left.
    Probes,
}

/// A listening socket.
pub trait Listen: Send + Sync {
    type Stream: AsFd + Send;
    type Peer: Display + Send;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Self::Peer)>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;
    type Peer = SocketAddr;

    async fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.accept().await
    }
}

/// Accepts connections for ever and hands each to `serve`, which does not wait.
pub async fn accept<L: Listen>(listener: &L, purpose: Purpose, mut serve: impl FnMut(L::Stream, L::Peer)) {
    let allowed = match purpose {
        Purpose::Clients => descriptor_limit().saturating_sub(RESERVED),
        Purpose::Probes => u64::MAX,
    };
    let mut shortage = Shortage::default();
    loop {
        match listener.next().await {
            Ok((stream, peer)) => match u64::try_from(stream.as_fd().as_raw_fd()) {
                Ok(descriptor) if descriptor >= allowed => {
                    shortage.warn(
                        || tracing::warn!(%peer, "few file descriptors are left (ulimit -n); refusing connections"),
                    );
                }
                Ok(_) | Err(_) => serve(stream, peer),
            },
            Err(error) => {
                shortage.warn(|| {
                    tracing::warn!(%error, "cannot accept a connection; is the limit of open files (ulimit -n) too low?");
                });
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Logs one line per interval, not one per refused client.
#[derive(Default)]
struct Shortage {
    warned_at: Option<Instant>,
}

impl Shortage {
    fn warn(&mut self, log: impl FnOnce()) {
        let now = Instant::now();
        if self.warned_at.is_none_or(|at| now.duration_since(at) >= WARN_EVERY) {
            self.warned_at = Some(now);
            log();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A listener of a process that has no descriptor left.
    #[derive(Default)]
    struct Exhausted(AtomicU32);

    impl Listen for Exhausted {
        type Stream = OwnedFd;
        type Peer = &'static str;

        async fn next(&self) -> io::Result<(OwnedFd, &'static str)> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(io::Error::other("too many open files"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_without_descriptors_rests() {
        let listener = Exhausted::default();
        let forever = accept(&listener, Purpose::Probes, |_, _| {});
        assert!(tokio::time::timeout(Duration::from_secs(10), forever).await.is_err());
        let attempts = listener.0.load(Ordering::Relaxed);
        assert!((90..=101).contains(&attempts), "{attempts} attempts in ten seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shortage_is_logged_once_per_interval() {
        let (mut shortage, mut lines) = (Shortage::default(), 0);
        for _ in 0..3 {
            shortage.warn(|| lines += 1);
        }
        assert_eq!(lines, 1);
        tokio::time::advance(WARN_EVERY).await;
        shortage.warn(|| lines += 1);
        assert_eq!(lines, 2);
    }
}
