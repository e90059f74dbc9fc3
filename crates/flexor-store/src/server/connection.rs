//! The sending side of one connection, shared by all threads that may send to it.
//!
//! A thread queues bytes while it holds the lock of the service, and writes them without blocking after it has released
//! the lock. A task sends what the socket did not take; it exists only while bytes are left.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Buf;
use socket2::SockRef;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::runtime;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::hub::lock;
use super::limits::Limits;
use crate::codec::Chunks;
use crate::service::{ConnId, Now};

/// The most pieces in one system call.
const SLICES: usize = 64;
/// No request is incomplete.
const NOT_INCOMPLETE: u64 = u64::MAX;

pub(super) struct Connection {
    pub(super) id: ConnId,
    pub(super) peer: SocketAddr,
    socket: OwnedWriteHalf,
    outgoing: Mutex<Outgoing>,
    /// Notified when the queue has become shorter, for a reader that waits for it.
    drained: Notify,
    is_validated: AtomicBool,
    /// When the incomplete request began, in milliseconds; before VALIDATE, when the connection was opened.
    incomplete_since: AtomicU64,
}

#[derive(Default)]
struct Outgoing {
    queue: Chunks,
    writer: WriterState,
}

/// Whether a thread or task writes to the socket.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum WriterState {
    /// No thread writes. The next one that queues bytes writes them.
    #[default]
    Idle,
    /// One thread or task writes, and checks for more bytes before it stops.
    Active,
    /// The connection is being closed. No thread writes any more.
    Closed,
}

impl Connection {
    pub(super) fn new(socket: OwnedWriteHalf, peer: SocketAddr, now: Now) -> Connection {
        Connection {
            id: ConnId::fresh(),
            peer,
            socket,
            outgoing: Mutex::default(),
            drained: Notify::new(),
            is_validated: AtomicBool::new(false),
            incomplete_since: AtomicU64::new(millis(now)),
        }
    }

    /// Appends bytes to the queue. To be called under the lock of the service, which defines the order.
    pub(super) fn queue(&self, chunks: Chunks, limit: usize) {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.writer == WriterState::Closed {
            return;
        }
        outgoing.queue.append(chunks);
        let waiting = outgoing.queue.len();
        drop(outgoing);
        if waiting > limit {
            self.close(&format!("{waiting} bytes wait to be read by the client, more than the {limit} allowed"));
        }
    }

    /// Writes the queue as far as the socket takes it without blocking.
    pub(super) fn flush(self: &Arc<Self>, runtime: &runtime::Handle) {
        let Some(mut batch) = self.begin_writing() else { return };
        loop {
            match self.write(&mut batch) {
                Ok(()) => match self.next_batch() {
                    Some(more) => batch = more,
                    None => return,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.put_back(batch) {
                        runtime.spawn(self.clone().send_rest());
                    }
                    return;
                }
                Err(error) => return self.close_broken(&error),
            }
        }
    }

    /// Closes the connection in both directions. Its reader notices and cleans up. The kernel still delivers the bytes that
    /// it has taken.
    pub(super) fn close(&self, reason: &str) {
        if self.close_silently() {
            warn!(conn = %self.id, peer = %self.peer, reason, "closing a store connection");
        }
    }

    /// Closes without a log line. Returns whether the connection was open.
    pub(super) fn close_silently(&self) -> bool {
        let mut outgoing = lock(&self.outgoing);
        let was_open = outgoing.writer != WriterState::Closed;
        *outgoing = Outgoing { queue: Chunks::default(), writer: WriterState::Closed };
        drop(outgoing);
        if was_open {
            // Fails if the peer has closed already, which has the same effect.
            let _ = SockRef::from(self.socket.as_ref()).shutdown(Shutdown::Both);
            self.drained.notify_one();
        }
        was_open
    }

    /// Waits until at most so many bytes are queued. Bytes that a thread is writing do not count, which makes the pause
    /// slightly shorter.
    pub(super) async fn wait_until_queued_at_most(&self, bytes: usize) {
        while lock(&self.outgoing).queue.len() > bytes {
            self.drained.notified().await;
        }
    }

    /// Makes a waiting reader check its condition again.
    pub(super) fn wake_reader(&self) {
        self.drained.notify_one();
    }

    /// Waits until `is_ready`, which is checked again whenever the connection makes progress.
    pub(super) async fn wait_until(&self, is_ready: impl Fn() -> bool) {
        while !is_ready() && lock(&self.outgoing).writer != WriterState::Closed {
            self.drained.notified().await;
        }
    }

    /// Notes the progress of the connection's requests, for [`lateness`](Connection::lateness).
    pub(super) fn note_progress(&self, is_validated: bool, incomplete_since: Option<Now>) {
        if is_validated {
            self.is_validated.store(true, Ordering::Relaxed);
            self.incomplete_since.store(incomplete_since.map_or(NOT_INCOMPLETE, millis), Ordering::Relaxed);
        }
    }

    /// Describes what the connection should have done by now; none if it is not late.
    pub(super) fn lateness(&self, now: Now, limits: &Limits) -> Option<String> {
        let since = self.incomplete_since.load(Ordering::Relaxed);
        let (limit, what) = if self.is_validated.load(Ordering::Relaxed) {
            (limits.request_within, "a request is incomplete")
        } else {
            (limits.validate_within, "the client has not sent VALIDATE")
        };
        let is_late = since != NOT_INCOMPLETE && millis(now).saturating_sub(since) > millis(limit);
        is_late.then(|| format!("{what} after {limit:?}"))
    }

    fn begin_writing(&self) -> Option<Chunks> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.writer != WriterState::Idle || outgoing.queue.is_empty() {
            return None;
        }
        outgoing.writer = WriterState::Active;
        Some(std::mem::take(&mut outgoing.queue))
    }

    /// Takes the queue for the writer. If the queue is empty, the writer stops.
    fn next_batch(&self) -> Option<Chunks> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.writer != WriterState::Active {
            return None;
        }
        if outgoing.queue.is_empty() {
            outgoing.writer = WriterState::Idle;
            return None;
        }
        Some(std::mem::take(&mut outgoing.queue))
    }

    /// Puts unsent bytes back to the front of the queue. Returns false if the connection is being closed.
    fn put_back(&self, mut rest: Chunks) -> bool {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.writer != WriterState::Active {
            return false;
        }
        rest.append(std::mem::take(&mut outgoing.queue));
        outgoing.queue = rest;
        true
    }

    /// Writes until the batch is empty or the socket takes no more.
    fn write(&self, batch: &mut Chunks) -> io::Result<()> {
        while batch.has_remaining() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let written = match batch.chunks_vectored(&mut slices) {
                1 => self.socket.try_write(&slices[0])?,
                count => self.socket.try_write_vectored(&slices[..count])?,
            };
            batch.advance(written);
        }
        Ok(())
    }

    /// Stays the writer until all bytes are sent. While it waits, the bytes are in the queue and count there.
    async fn send_rest(self: Arc<Self>) {
        loop {
            if let Err(error) = self.socket.writable().await {
                return self.close_broken(&error);
            }
            let Some(mut batch) = self.next_batch() else { return };
            match self.write(&mut batch) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return self.close_broken(&error),
                Ok(()) | Err(_) => {}
            }
            if !self.put_back(batch) {
                return;
            }
            self.drained.notify_one();
        }
    }

    fn close_broken(&self, error: &io::Error) {
        if self.close_silently() {
            debug!(conn = %self.id, peer = %self.peer, %error, "a store connection broke");
        }
    }
}

fn millis(time: Now) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NOT_INCOMPLETE - 1)
}
