//! `/live`, `/ready` and `/metrics`. Ready means that all caches are complete, so that decisions are made.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::OperatorError;
use crate::executor::Shared;

/// Listens and answers until the process ends.
pub(crate) async fn serve(
    address: SocketAddr,
    shared: Arc<Shared>,
    ready: Arc<AtomicBool>,
) -> Result<SocketAddr, OperatorError> {
    let listen = |error| OperatorError::Listen { address, error };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let bound = listener.local_addr().map_err(listen)?;
    let is_ready = move || {
        let ready = ready.load(Ordering::Relaxed);
        async move {
            if ready {
                (StatusCode::OK, "ready\n")
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "caches are being filled\n")
            }
        }
    };
    let router = Router::new()
        .route("/live", get(|| async { "live\n" }))
        .route("/ready", get(is_ready))
        .route("/metrics", get(move || async move { shared.metrics.text() }));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "probes cannot be served any more");
        }
    });
    Ok(bound)
}
