//! The interface between a TCPStore port and the state behind it.
//!
//! A [`Service`] is a state machine without sockets and without a clock. The [server](crate::server) owns the sockets,
//! calls the service under one lock, so that every request is atomic, and delivers its [`Outbox`]. The plain service is
//! the [`Keyspace`](crate::keyspace::Keyspace); the master's service also owns the rendezvous of its job.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes};

use crate::codec::{Chunks, Reply, Request};

/// The id of a connection, unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(u64);

impl ConnId {
    /// Creates an id that was never used.
    pub fn fresh() -> ConnId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        ConnId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time: the time since the start of the process, by a monotonic clock.
pub type Now = Duration;

/// A request that the service does not serve. The server logs the reason and closes the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// What is wrong with the request, and what to do about it.
    pub reason: String,
}

/// The state behind a port.
pub trait Service: Send + 'static {
    /// A connection was accepted.
    fn opened(&mut self, conn: ConnId, peer: SocketAddr, now: Now, out: &mut Outbox);

    /// A connection sent a request. Replies need not come at once, and may go to other connections.
    fn request(&mut self, conn: ConnId, request: Request, now: Now, out: &mut Outbox) -> Result<(), Refused>;

    /// A connection was closed; nothing can be sent to it any more.
    fn closed(&mut self, conn: ConnId, now: Now, out: &mut Outbox);

    /// Time has passed. Called when [`next_tick`](Service::next_tick) says, and perhaps more often.
    fn tick(&mut self, now: Now, out: &mut Outbox);

    /// Whether the service takes another request of the connection. While it does not, nothing is read from the connection.
    /// The service calls [`Outbox::resume`] when that may have changed.
    fn has_room(&self, _conn: ConnId) -> bool {
        true
    }

    /// When to call [`tick`](Service::tick) next, if ever.
    fn next_tick(&self) -> Option<Now>;
}

/// The output of a service: bytes to send and connections to close, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    parcels: Vec<Parcel>,
    /// The bytes in all parcels.
    queued: usize,
}

/// One output for one connection.
#[derive(Debug)]
pub(crate) enum Parcel {
    Send(ConnId, Chunks),
    Close(ConnId, String),
    Resume(ConnId),
}

impl Parcel {
    pub(crate) fn conn(&self) -> ConnId {
        match self {
            Parcel::Send(conn, _) | Parcel::Close(conn, _) | Parcel::Resume(conn) => *conn,
        }
    }
}

impl Outbox {
    /// Sends a reply.
    pub fn send(&mut self, conn: ConnId, reply: Reply) {
        self.write(conn, |chunks| reply.encode(chunks));
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, conn: ConnId, bytes: Bytes) {
        self.write(conn, |chunks| chunks.push_shared(bytes));
    }

    /// Closes a connection after the bytes that were sent to it before. The reason is logged.
    pub fn close(&mut self, conn: ConnId, reason: impl Into<String>) {
        self.parcels.push(Parcel::Close(conn, reason.into()));
    }

    pub fn is_empty(&self) -> bool {
        self.parcels.is_empty()
    }

    /// Lets the server read from a connection again.
    pub fn resume(&mut self, conn: ConnId) {
        self.parcels.push(Parcel::Resume(conn));
    }

    /// Takes all bytes, joined for consecutive sends to one connection. For tests and for services that wrap others.
    pub fn take_sent(&mut self) -> Vec<(ConnId, Bytes)> {
        self.queued = 0;
        let sent = self.parcels.extract_if(.., |parcel| matches!(parcel, Parcel::Send(..)));
        let joined = sent.filter_map(|parcel| match parcel {
            Parcel::Send(conn, mut chunks) => Some((conn, chunks.copy_to_bytes(chunks.len()))),
            Parcel::Close(..) | Parcel::Resume(_) => None,
        });
        joined.collect()
    }

    /// Takes the connections to close, with the reasons.
    pub fn take_closed(&mut self) -> Vec<(ConnId, String)> {
        let closed = self.parcels.extract_if(.., |parcel| matches!(parcel, Parcel::Close(..)));
        let named = closed.filter_map(|parcel| match parcel {
            Parcel::Close(conn, reason) => Some((conn, reason)),
            Parcel::Send(..) | Parcel::Resume(_) => None,
        });
        named.collect()
    }

    /// The number of bytes for all connections.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    pub(crate) fn into_parcels(self) -> Vec<Parcel> {
        self.parcels
    }

    /// Writes to a connection. Consecutive replies to the same connection become one parcel.
    fn write(&mut self, conn: ConnId, write: impl FnOnce(&mut Chunks)) {
        if let Some(Parcel::Send(last, chunks)) = self.parcels.last_mut()
            && *last == conn
        {
            let before = chunks.len();
            write(chunks);
            self.queued += chunks.len() - before;
            return;
        }
        let mut chunks = Chunks::default();
        write(&mut chunks);
        if !chunks.is_empty() {
            self.queued += chunks.len();
            self.parcels.push(Parcel::Send(conn, chunks));
        }
    }
}
