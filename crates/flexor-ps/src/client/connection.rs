//! One stream of requests to one server. Answers are told apart by their numbers.

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

use crate::addressee::Addressee;
use crate::dial::{MAX_MESSAGE, Way};

/// How many requests may be on their way.
const WAITING: usize = 64;

pub(super) struct Connection {
    channel: Channel,
    server: Addressee,
    token: Option<Token>,
    requests: mpsc::Sender<wire::Request>,
    answers: Arc<Answers>,
    last: AtomicU64,
}

#[derive(Default)]
struct Answers {
    awaited: Mutex<HashMap<u64, oneshot::Sender<wire::reply::Result>>>,
    is_broken: AtomicBool,
}

impl Connection {
    pub(super) async fn open(way: &Way, server: &Addressee, token: Option<&Token>) -> Result<Self, Status> {
        let away = |error: Error| {
            // What it says itself is only that it is one of the transport.
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Status::unavailable(why)
        };
        let channel = way.connect().await.map_err(away)?;
        let mut client = ParameterServerClient::with_interceptor(channel.clone(), Token::carried(token))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let (requests, receiver) = mpsc::channel(WAITING);
        let mut replies = client.work(server.call(ReceiverStream::new(receiver))).await?.into_inner();
        let answers = Arc::new(Answers::default());
        let hear = answers.clone();
        tokio::spawn(async move {
            while let Ok(Some(reply)) = replies.message().await {
                let awaited = hear.awaited.lock().remove(&reply.id);
                if let (Some(awaited), Some(result)) = (awaited, reply.result) {
                    // Who does not wait any more does not want to know.
                    let _ = awaited.send(result);
                }
            }
            hear.is_broken.store(true, Ordering::Release);
            hear.awaited.lock().clear();
        });
        let (server, token) = (server.clone(), token.cloned());
        Ok(Self { channel, server, token, requests, answers, last: AtomicU64::new(0) })
    }

    pub(super) fn stands(&self) -> bool {
        !self.answers.is_broken.load(Ordering::Acquire)
    }

    /// Has the server take a snapshot, and keep it as long as the stream is held.
    pub(super) async fn take_snapshot(
        &self,
        asked: wire::TakeSnapshot,
    ) -> Result<(wire::SnapshotTaken, Streaming<wire::SnapshotTaken>), Status> {
        let mut client =
            ParameterServerClient::with_interceptor(self.channel.clone(), Token::carried(self.token.as_ref()));
        let mut kept = client.snapshot(self.server.call(asked)).await?.into_inner();
        let taken = kept.message().await?.ok_or_else(|| Status::internal("no snapshot was taken"))?;
        Ok((taken, kept))
    }

    /// The answer to a request; none if the connection broke, and nobody knows whether it was carried out.
    pub(super) async fn ask(&self, op: wire::request::Op) -> Option<wire::reply::Result> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (awaited, answer) = oneshot::channel();
        self.answers.awaited.lock().insert(id, awaited);
        if !self.stands() || self.requests.send(wire::Request { id, op: Some(op) }).await.is_err() {
            self.answers.awaited.lock().remove(&id);
            return None;
        }
        answer.await.ok()
    }
}
