//! New connections.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use flexor_listen::Purpose;
use tokio::net::TcpListener;
use tracing::warn;

use super::hub::Hub;
use super::reader;
use crate::service::Service;

/// Accepts connections of several ports for ever. The ports are closed as soon as the future is dropped, which a task
/// for each port would not do.
pub(super) async fn accept_all<S: Service>(listeners: &[TcpListener], hub: &Arc<Hub<S>>) {
    let mut ports: Vec<_> = listeners.iter().map(|listener| Box::pin(accept(listener, hub))).collect();
    poll_fn(|context| {
        for port in &mut ports {
            if port.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    })
    .await;
}

async fn accept<S: Service>(listener: &TcpListener, hub: &Arc<Hub<S>>) {
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
