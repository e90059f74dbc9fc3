//! The sending side of one connection, shared by all who may have something for it.
//!
//! Bytes are queued by whoever holds the service's lock and written, without waiting, by whoever released it. What the
//! socket does not take is left to a task that exists only as long as there is something left.

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

/// Pieces handed to the kernel in one call.
const SLICES: usize = 64;
/// No request has begun.
const NOTHING_BEGUN: u64 = u64::MAX;

pub(super) struct Connection {
    pub(super) id: ConnId,
    pub(super) peer: SocketAddr,
    socket: OwnedWriteHalf,
    outgoing: Mutex<Outgoing>,
    /// Told when the queue has become shorter, for a reader that waits for it.
    drained: Notify,
    is_validated: AtomicBool,
    /// Since when a request is incomplete, in milliseconds; before VALIDATE, since when the connection is open.
    incomplete_since: AtomicU64,
}

#[derive(Default)]
struct Outgoing {
    queue: Chunks,
    turn: Turn,
}

/// Who writes.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Whoever queues something next.
    #[default]
    Anyone,
    /// Somebody does at this moment, and will look again for more.
    Taken,
    /// Nobody any more: the connection is being closed.
    Nobody,
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

    /// Puts bytes behind those that wait already. To be called under the service's lock, which makes the order.
    pub(super) fn queue(&self, chunks: Chunks, limit: usize) {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.turn == Turn::Nobody {
            return;
        }
        outgoing.queue.append(chunks);
        let waiting = outgoing.queue.len();
        drop(outgoing);
        if waiting > limit {
            self.close(&format!("{waiting} bytes wait to be read by the client, more than the {limit} allowed"));
        }
    }

    /// Sends what is queued, as far as the socket takes it at once.
    pub(super) fn flush(self: &Arc<Self>, runtime: &runtime::Handle) {
        let Some(mut batch) = self.take_turn() else { return };
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
                Err(error) => return self.broken(&error),
            }
        }
    }

    /// Closes the connection in both directions; its reader notices and tidies up. Bytes that the kernel has already
    /// taken are still delivered.
    pub(super) fn close(&self, reason: &str) {
        if self.silence() {
            warn!(conn = %self.id, peer = %self.peer, reason, "closing a store connection");
        }
    }

    /// Closes without a word.
    pub(super) fn silence(&self) -> bool {
        let mut outgoing = lock(&self.outgoing);
        let was_open = outgoing.turn != Turn::Nobody;
        *outgoing = Outgoing { queue: Chunks::default(), turn: Turn::Nobody };
        drop(outgoing);
        if was_open {
            // Fails when the peer is gone already, which is as good.
            let _ = SockRef::from(self.socket.as_ref()).shutdown(Shutdown::Both);
            self.drained.notify_one();
        }
        was_open
    }

    /// Waits until at most so many bytes are queued. Bytes that a writer has in hand do not count, which at most makes
    /// the pause a little shorter.
    pub(super) async fn wait_until_queued_at_most(&self, bytes: usize) {
        while lock(&self.outgoing).queue.len() > bytes {
            self.drained.notified().await;
        }
    }

    /// Makes a reader that waits look again.
    pub(super) fn wake_reader(&self) {
        self.drained.notify_one();
    }

    /// Waits until `is_so`, which is asked again whenever the connection has moved.
    pub(super) async fn wait_until(&self, is_so: impl Fn() -> bool) {
        while !is_so() && lock(&self.outgoing).turn != Turn::Nobody {
            self.drained.notified().await;
        }
    }

    /// Notes how far the connection's requests are, for [`lateness`](Connection::lateness).
    pub(super) fn note_progress(&self, is_validated: bool, incomplete_since: Option<Now>) {
        if is_validated {
            self.is_validated.store(true, Ordering::Relaxed);
            self.incomplete_since.store(incomplete_since.map_or(NOTHING_BEGUN, millis), Ordering::Relaxed);
        }
    }

    /// What the connection should have done long ago, if anything.
    pub(super) fn lateness(&self, now: Now, limits: &Limits) -> Option<String> {
        let since = self.incomplete_since.load(Ordering::Relaxed);
        let (limit, what) = if self.is_validated.load(Ordering::Relaxed) {
            (limits.request_within, "a request is incomplete")
        } else {
            (limits.validate_within, "the client has not said VALIDATE")
        };
        let is_late = since != NOTHING_BEGUN && millis(now).saturating_sub(since) > millis(limit);
        is_late.then(|| format!("{what} after {limit:?}"))
    }

    fn take_turn(&self) -> Option<Chunks> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.turn != Turn::Anyone || outgoing.queue.is_empty() {
            return None;
        }
        outgoing.turn = Turn::Taken;
        Some(std::mem::take(&mut outgoing.queue))
    }

    /// What is queued, for the holder of the turn; with nothing queued the turn is given back.
    fn next_batch(&self) -> Option<Chunks> {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.turn != Turn::Taken {
            return None;
        }
        if outgoing.queue.is_empty() {
            outgoing.turn = Turn::Anyone;
            return None;
        }
        Some(std::mem::take(&mut outgoing.queue))
    }

    /// Puts what the socket did not take in front of the queue again; false when the connection is being closed.
    fn put_back(&self, mut rest: Chunks) -> bool {
        let mut outgoing = lock(&self.outgoing);
        if outgoing.turn != Turn::Taken {
            return false;
        }
        rest.append(std::mem::take(&mut outgoing.queue));
        outgoing.queue = rest;
        true
    }

    /// Writes until nothing is left or the socket takes no more.
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

    /// Keeps the turn until all is sent. While it waits the bytes lie in the queue, where they count.
    async fn send_rest(self: Arc<Self>) {
        loop {
            if let Err(error) = self.socket.writable().await {
                return self.broken(&error);
            }
            let Some(mut batch) = self.next_batch() else { return };
            match self.write(&mut batch) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return self.broken(&error),
                Ok(()) | Err(_) => {}
            }
            if !self.put_back(batch) {
                return;
            }
            self.drained.notify_one();
        }
    }

    fn broken(&self, error: &io::Error) {
        if self.silence() {
            debug!(conn = %self.id, peer = %self.peer, %error, "a store connection broke");
        }
    }
}

fn millis(time: Now) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NOTHING_BEGUN - 1)
}
