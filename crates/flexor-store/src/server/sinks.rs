//! Connections that are no sockets: those that a sidecar carries over its own stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::{Buf, Bytes};

use super::hub::lock;
use crate::service::{ConnId, Parcel};

/// Takes what the service wants sent to one connection. Called while the service is locked, in order: must not block.
pub trait Sink: Send + Sync {
    /// Bytes to send.
    fn send(&self, bytes: Bytes);
    /// The connection is to be closed.
    fn close(&self, reason: &str);
}

#[derive(Default)]
pub(super) struct Sinks(Mutex<HashMap<ConnId, Arc<dyn Sink>>>);

impl Sinks {
    pub(super) fn attach(&self, conn: ConnId, sink: Arc<dyn Sink>) {
        lock(&self.0).insert(conn, sink);
    }

    pub(super) fn detach(&self, conn: ConnId) {
        lock(&self.0).remove(&conn);
    }

    /// Delivers a parcel, if it is for one of these. A parcel for a connection that is gone is nobody's.
    pub(super) fn deliver(&self, parcel: Parcel) {
        let Some(sink) = lock(&self.0).get(&parcel.conn()).cloned() else { return };
        match parcel {
            Parcel::Send(_, mut chunks) => sink.send(chunks.copy_to_bytes(chunks.len())),
            Parcel::Close(_, reason) => sink.close(&reason),
            // Whoever carries the connection reads as it likes.
            Parcel::Resume(_) => {}
        }
    }
}
