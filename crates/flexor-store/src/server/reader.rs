//! The receiving side of one connection: a task that reads, decodes and serves requests until the client has closed.
//!
//! The read buffer belongs to the thread, not to the connection, so that ten thousand idle clients need none.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::ready;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;
use tracing::debug;

use super::connection::Connection;
use super::hub::Hub;
use crate::codec::{DecodeError, Decoder, Request};
use crate::service::{Refused, Service};

const READ_BUFFER: usize = 64 << 10;
/// The most requests under one hold of the service's lock.
const BATCH: usize = 256;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BUFFER]);
}

/// Why the server closes a connection.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("the incomplete requests of all clients hold too many bytes")]
    Unschedulable,
}

/// Serves one connection to its end.
pub(super) async fn serve<S: Service>(hub: Arc<Hub<S>>, connection: Arc<Connection>, mut socket: OwnedReadHalf) {
    hub.with(Some(&connection), |service, now, out| service.opened(connection.id, connection.peer, now, out));
    let mut reader = Reader::new(&hub, &connection);
    loop {
        match read(&mut socket, &mut reader.decoder).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                debug!(conn = %connection.id, peer = %connection.peer, %error, "a store connection broke");
                break;
            }
        }
        if let Err(error) = reader.serve_complete().await {
            connection.close(&error.to_string());
            break;
        }
    }
    hub.account_incomplete(reader.accounted, 0);
    hub.remove(&connection);
}

/// Reads once into the thread's buffer and from there into the decoder. Returns the number of bytes, 0 at the end.
async fn read(socket: &mut OwnedReadHalf, decoder: &mut Decoder) -> io::Result<usize> {
    poll_fn(|context| {
        BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(&mut *socket).poll_read(context, &mut buffer))?;
            decoder.push(buffer.filled());
            Ok(buffer.filled().len()).into()
        })
    })
    .await
}

struct Reader<'a, S> {
    hub: &'a Arc<Hub<S>>,
    connection: &'a Arc<Connection>,
    decoder: Decoder,
    /// The bytes of an incomplete request that are accounted for at the hub.
    accounted: usize,
}

impl<'a, S: Service> Reader<'a, S> {
    fn new(hub: &'a Arc<Hub<S>>, connection: &'a Arc<Connection>) -> Reader<'a, S> {
        Reader { hub, connection, decoder: Decoder::new(), accounted: 0 }
    }

    /// Serves all complete requests, as fast as the client reads the replies.
    async fn serve_complete(&mut self) -> Result<(), ReadError> {
        let mut has_progressed = false;
        while let Some(request) = self.decoder.next_request()? {
            has_progressed = true;
            self.serve(request)?;
            self.connection.wait_until_queued_at_most(self.hub.limits.pause_reading_at).await;
            self.connection.wait_until(|| self.hub.has_room(self.connection.id)).await;
        }
        self.note_progress(has_progressed)
    }

    /// Serves a request and the complete requests after it under one hold of the lock, up to [`BATCH`] requests or the
    /// limit of unread replies. The first request may be large and was decoded without the lock; the others together are
    /// smaller than one read.
    fn serve(&mut self, first: Request) -> Result<(), ReadError> {
        let (id, limit) = (self.connection.id, self.hub.limits.pause_reading_at);
        let decoder = &mut self.decoder;
        self.hub.with(Some(self.connection), |service, now, out| {
            let mut next = Some(first);
            let mut served = 0;
            while let Some(request) = next {
                service.request(id, request, now, out)?;
                served += 1;
                let can_continue = served < BATCH && out.queued() <= limit && service.has_room(id);
                next = if can_continue { decoder.next_request()? } else { None };
            }
            Ok(())
        })
    }

    fn note_progress(&mut self, has_progressed: bool) -> Result<(), ReadError> {
        let pending = self.decoder.pending();
        let had_begun = self.accounted > 0 && !has_progressed;
        if pending == 0 {
            self.connection.note_progress(self.decoder.is_validated(), None);
        } else if !had_begun {
            self.connection.note_progress(self.decoder.is_validated(), Some((self.hub.clock)()));
        }
        let has_memory = self.hub.account_incomplete(self.accounted, pending);
        self.accounted = pending;
        if has_memory { Ok(()) } else { Err(ReadError::Unschedulable) }
    }
}
