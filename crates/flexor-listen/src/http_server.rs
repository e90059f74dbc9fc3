//! HTTP connections: gRPC over HTTP/2, and HTTP/1 where a port has pages for people and probes.

use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tower::ServiceExt;

use crate::accept::{Listen, Purpose, accept};
use crate::first_bytes::FirstBytes;
use crate::request_body::RequestBody;

/// The time for the header of an HTTP/1 request, counted from the end of the request before it.
pub const HEADER_WITHIN: Duration = Duration::from_secs(20);

/// How the connections of a port are served.
#[derive(Debug, Clone)]
pub struct HttpServer {
    purpose: Purpose,
    http1: bool,
    /// Flow-control windows of a stream and of a connection, in bytes.
    windows: Option<(u32, u32)>,
    /// The interval of pings, and the time for their answer.
    pings: Option<(Duration, Duration)>,
}

impl HttpServer {
    /// A port for gRPC.
    pub fn grpc() -> Self {
        Self { purpose: Purpose::Clients, http1: false, windows: None, pings: None }
    }

    /// A port for probes and metrics.
    pub fn probes() -> Self {
        Self { purpose: Purpose::Probes, http1: true, windows: None, pings: Some(HTTP2_PROBE_PINGS) }
    }

    /// Serves HTTP/1 too.
    #[must_use]
    pub fn with_http1(self) -> Self {
        Self { http1: true, ..self }
    }

    /// Flow-control windows of a stream and of a connection, in bytes.
    #[must_use]
    pub fn with_windows(self, stream: u32, connection: u32) -> Self {
        Self { windows: Some((stream, connection)), ..self }
    }

    /// Closes HTTP/2 connections whose client answers no ping: the client is gone, or stuck within a frame.
    #[must_use]
    pub fn with_pings(self, interval: Duration, timeout: Duration) -> Self {
        Self { pings: Some((interval, timeout)), ..self }
    }

    /// Serves until the future is dropped.
    pub async fn serve<L>(&self, listener: &L, router: Router)
    where
        L: Listen<Stream: AsyncRead + AsyncWrite + Unpin + 'static>,
    {
        let builder = self.builder();
        accept(listener, self.purpose, |stream, _| {
            let (builder, router) = (builder.clone(), router.clone());
            let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                router.clone().oneshot(RequestBody::of(request))
            });
            tokio::spawn(async move {
                let served = builder.serve_connection(TokioIo::new(FirstBytes::new(stream)), service).await;
                if let Err(error) = served {
                    tracing::debug!(error, "a connection broke");
                }
            });
        })
        .await;
    }

    fn builder(&self) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_WITHIN);
        let mut http2 = builder.http2();
        http2.timer(TokioTimer::new()).max_concurrent_streams(None);
        if let Some((stream, connection)) = self.windows {
            http2.initial_stream_window_size(stream).initial_connection_window_size(connection);
        }
        if let Some((interval, timeout)) = self.pings {
            http2.keep_alive_interval(interval).keep_alive_timeout(timeout);
        }
        if self.http1 { builder } else { builder.http2_only() }
    }
}

const HTTP2_PROBE_PINGS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(10));
