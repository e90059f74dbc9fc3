//! The service that nodes call: alone, or over a session that tells them every change of their world.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use flexor_engine::ledger::WorkerId;
use flexor_engine::rendezvous::{Event, MemberId};
use flexor_store::codec::Request as StoreRequest;
use flexor_store::server::Sink;
use flexor_store::service::{ConnId, Service};
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::master_server::Master;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::{Notify, watch};
use tokio::time::{Interval, MissedTickBehavior};
use tonic::{Request, Response, Status, Streaming};

use super::calls;
use crate::job::Job;

/// How many requests of a session may wait for something at a time; while they do, no more are read.
const WAITING: usize = 64;
/// How long a node has to come back after its session broke.
const GRACE: Duration = Duration::from_secs(1);

pub(super) struct MasterService {
    job: Job,
}

impl MasterService {
    pub(super) fn new(job: Job) -> Self {
        Self { job }
    }
}

#[tonic::async_trait]
impl Master for MasterService {
    type SessionStream = Pin<Box<dyn Stream<Item = Result<wire::Reply, Status>> + Send>>;

    async fn call(&self, request: Request<wire::Request>) -> Result<Response<wire::Reply>, Status> {
        Ok(Response::new(calls::answer(&self.job, request.into_inner()).await))
    }

    async fn session(
        &self,
        request: Request<Streaming<wire::Request>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let session = Session::new(self.job.clone(), request.into_inner());
        let replies = futures::stream::unfold(session, async |mut session| {
            let reply = session.next().await?;
            Some((Ok(reply), session))
        });
        Ok(Response::new(Box::pin(replies)))
    }
}

/// A session is the stream of its replies: it runs when they are asked for and ends when nobody does any more, so it
/// needs no task and no queue of its own.
struct Session {
    job: Job,
    requests: Streaming<wire::Request>,
    /// The node that counts as alive while the session is open.
    owner: Option<MemberId>,
    /// Which of the owner's sessions this is: an older one may end after it has begun.
    number: u64,
    /// The worker that holds batches, if it is one.
    worker: Option<WorkerId>,
    /// Requests whose answers wait for something to happen.
    waiting: FuturesUnordered<BoxFuture<'static, wire::Reply>>,
    changes: watch::Receiver<u64>,
    told: Option<wire::World>,
    pulse: Interval,
}

impl Session {
    fn new(job: Job, requests: Streaming<wire::Request>) -> Self {
        let changes = job.with(|store, _, _| store.changes());
        let mut pulse = tokio::time::interval(Duration::from_secs(1));
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            job,
            requests,
            owner: None,
            number: 0,
            worker: None,
            waiting: FuturesUnordered::new(),
            changes,
            told: None,
            pulse,
        }
    }

    /// The next thing to say; nothing when the node has said its last.
    async fn next(&mut self) -> Option<wire::Reply> {
        loop {
            tokio::select! {
                request = self.requests.next(), if self.waiting.len() < WAITING => match request {
                    Some(Ok(request)) => if let Some(reply) = self.take(request).await {
                        return Some(reply);
                    },
                    Some(Err(_)) | None => return None,
                },
                Some(reply) = self.waiting.next(), if !self.waiting.is_empty() => return Some(reply),
                _ = self.changes.changed() => if let Some(reply) = self.news() {
                    return Some(reply);
                },
                _ = self.pulse.tick() => self.pulse(),
            }
        }
    }

    /// Carries out a request; nothing if its answer has to wait.
    async fn take(&mut self, request: wire::Request) -> Option<wire::Reply> {
        if self.owner.is_none() {
            self.owner = calls::member_of(&request).ok();
            self.number = self.owner.as_ref().map_or(0, |owner| self.job.session_begun(owner));
        }
        if self.worker.is_none()
            && let Some(worker) = calls::worker_of(&request)
        {
            self.job.data().session_begun(&worker);
            self.worker = Some(worker);
        }
        // Everything is decided when it is first looked at, so in the order in which it was asked for; what has to wait
        // is only the answer.
        let job = self.job.clone();
        let mut answer = async move { calls::answer(&job, request).await }.boxed();
        match futures::poll!(&mut answer) {
            Poll::Ready(reply) => Some(reply),
            Poll::Pending => {
                self.waiting.push(answer);
                None
            }
        }
    }

    /// Where the owner stands, if that is something else than it was told last.
    fn news(&mut self) -> Option<wire::Reply> {
        let mut world = self.job.world_for(self.owner.as_ref()?, false);
        // What is waited for changes with every node that joins; the owner asks if it wants to know.
        world.standing.clear();
        if self.told.as_ref() == Some(&world) {
            return None;
        }
        self.told = Some(world.clone());
        Some(calls::reply(&self.job, 0, wire::reply::Result::World(world)))
    }

    /// An open session is a sign of life: its other end answers the pings of the connection.
    fn pulse(&self) {
        if let Some(id) = self.owner.clone() {
            self.job.with(|store, now, out| store.tell(self.job.run(), Event::Heard { id }, now, out));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(worker) = &self.worker {
            self.job.data().session_ended(worker);
            self.job.evaluations().worker_lost(worker);
        }
        if let Some(id) = self.owner.take()
            && self.job.session_ended(&id, self.number)
        {
            let event = Event::ConnectionLost { id, grace: GRACE };
            self.job.with(|store, now, out| store.tell(self.job.run(), event, now, out));
        }
    }
}

/// Somebody who waits for keys, as a connection of the store would.
pub(super) struct KeyWaiter {
    job: Job,
    conn: ConnId,
    came: Arc<Came>,
}

#[derive(Default)]
struct Came(Notify);

impl Sink for Came {
    fn send(&self, _: Bytes) {
        self.0.notify_one();
    }

    fn close(&self, _: &str) {
        self.0.notify_one();
    }
}

impl KeyWaiter {
    pub(super) fn register(job: &Job, keys: Vec<Bytes>) -> Self {
        let conn = ConnId::fresh();
        let came = Arc::new(Came::default());
        job.store().attach(conn, came.clone());
        job.with(|store, now, out| {
            // Waiting for keys is never refused; if it were, the caller would look once more when its time is over.
            let _ = store.keyspace_mut().request(conn, StoreRequest::Wait { keys }, now, out);
        });
        Self { job: job.clone(), conn, came }
    }

    pub(super) async fn came(&self) {
        self.came.0.notified().await;
    }
}

impl Drop for KeyWaiter {
    fn drop(&mut self) {
        self.job.store().detach(self.conn);
        self.job.with(|store, now, out| store.keyspace_mut().closed(self.conn, now, out));
    }
}
