//! Connections that are no sockets: those that a sidecar carries over its stream, and waiters inside the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::{Buf, Bytes};

use super::hub::lock;
use crate::service::{ConnId, Parcel};

/// Takes the bytes for one connection. Called in order and under the lock of the service, so it must not block.
pub trait Sink: Send + Sync {
    fn send(&self, bytes: Bytes);
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

    /// Delivers a parcel to its sink. A parcel for a detached connection is dropped.
    pub(super) fn deliver(&self, parcel: Parcel) {
        let Some(sink) = lock(&self.0).get(&parcel.conn()).cloned() else { return };
        match parcel {
            Parcel::Send(_, mut chunks) => sink.send(chunks.copy_to_bytes(chunks.len())),
            Parcel::Close(_, reason) => sink.close(&reason),
            // The owner of a sink paces itself.
            Parcel::Resume(_) => {}
        }
    }
}
