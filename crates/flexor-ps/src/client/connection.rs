//! One stream of requests to one server. Replies are matched to requests by their ids.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flexor_wire::Token;
use flexor_wire::ps::v1 as wire;
use flexor_wire::ps::v1::parameter_server_client::ParameterServerClient;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Error};
use tonic::{Status, Streaming};

use crate::call_target::CallTarget;
use crate::dial::{DialEndpoint, MAX_MESSAGE};

/// Requests that may wait to be sent.
const MAX_QUEUED: usize = 64;

pub(super) struct Connection {
    channel: Channel,
    server: CallTarget,
    token: Option<Token>,
    requests: mpsc::Sender<wire::Request>,
    pending: Arc<PendingReplies>,
    last: AtomicU64,
}

#[derive(Default)]
struct PendingReplies {
    waiting: Mutex<HashMap<u64, oneshot::Sender<wire::reply::Result>>>,
    is_broken: AtomicBool,
}

impl Connection {
    pub(super) async fn open(
        endpoint: &DialEndpoint,
        server: &CallTarget,
        token: Option<&Token>,
    ) -> Result<Self, Status> {
        let unavailable = |error: Error| {
            // The error itself says only that it is a transport error; the source has the cause.
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Status::unavailable(why)
        };
        let channel = endpoint.connect().await.map_err(unavailable)?;
        let mut client = ParameterServerClient::with_interceptor(channel.clone(), Token::carried(token))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let (requests, receiver) = mpsc::channel(MAX_QUEUED);
        let mut replies = client.work(server.call(ReceiverStream::new(receiver))).await?.into_inner();
        let pending = Arc::new(PendingReplies::default());
        let receiver = pending.clone();
        tokio::spawn(async move {
            while let Ok(Some(reply)) = replies.message().await {
                let awaited = receiver.waiting.lock().remove(&reply.id);
                if let (Some(awaited), Some(result)) = (awaited, reply.result) {
                    // The caller may have stopped waiting.
                    let _ = awaited.send(result);
                }
            }
            receiver.is_broken.store(true, Ordering::Release);
            receiver.waiting.lock().clear();
        });
        let (server, token) = (server.clone(), token.cloned());
        Ok(Self { channel, server, token, requests, pending, last: AtomicU64::new(0) })
    }

    pub(super) fn is_intact(&self) -> bool {
        !self.pending.is_broken.load(Ordering::Acquire)
    }

    /// Opens a snapshot on the server. It closes when the stream is dropped.
    pub(super) async fn open_snapshot(
        &self,
        request: wire::OpenSnapshot,
    ) -> Result<(wire::SnapshotOpened, Streaming<wire::SnapshotOpened>), Status> {
        let mut client =
            ParameterServerClient::with_interceptor(self.channel.clone(), Token::carried(self.token.as_ref()));
        let mut stream = client.snapshot(self.server.call(request)).await?.into_inner();
        let opened = stream.message().await?.ok_or_else(|| Status::internal("no snapshot was opened"))?;
        Ok((opened, stream))
    }

    /// The reply to a request; none if the connection broke, and the server may or may not have carried it out.
    pub(super) async fn request(&self, op: wire::request::Op) -> Option<wire::reply::Result> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, reply) = oneshot::channel();
        self.pending.waiting.lock().insert(id, sender);
        if !self.is_intact() || self.requests.send(wire::Request { id, op: Some(op) }).await.is_err() {
            self.pending.waiting.lock().remove(&id);
            return None;
        }
        reply.await.ok()
    }
}
