//! New connections.

use std::sync::Arc;

use flexor_listen::Purpose;
use tokio::net::TcpListener;
use tracing::warn;

use super::hub::Hub;
use super::reader;
use crate::service::Service;

/// Accepts connections for ever.
pub(super) async fn accept<S: Service>(listener: &TcpListener, hub: &Arc<Hub<S>>) {
    // Logs one line per shortage, not one per refused client.
    let mut is_full = false;
    flexor_listen::accept(listener, Purpose::Clients, |stream, peer| {
        let (read, write) = stream.into_split();
        if let Some(connection) = hub.admit(write, peer) {
            is_full = false;
            tokio::spawn(reader::serve(hub.clone(), connection, read));
        } else if !std::mem::replace(&mut is_full, true) {
            warn!(%peer, limit = hub.limits.connections, "too many connections; refusing further ones");
        }
    })
    .await;
}
