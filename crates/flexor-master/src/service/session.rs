//! The service for nodes: single calls, and sessions that also send every change of the node's world.

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

/// How many requests of a session may wait at a time. At this limit the session reads no further requests.
const MAX_WAITING: usize = 64;
/// How long a node has to reconnect after its session broke.
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

/// A session is the stream of its replies. It runs when its consumer polls and ends when the consumer drops it, so it needs
/// no task and no queue of its own.
struct Session {
    job: Job,
    requests: Streaming<wire::Request>,
    /// The node that counts as alive while the session is open.
    owner: Option<MemberId>,
    /// Orders the owner's sessions: an older session may end after a newer one began.
    number: u64,
    /// The worker of the session, once it has sent a request about batches.
    worker: Option<WorkerId>,
    /// Requests whose replies are not ready.
    waiting: FuturesUnordered<BoxFuture<'static, wire::Reply>>,
    changes: watch::Receiver<u64>,
    last_sent: Option<wire::World>,
    pulse: Interval,
}

impl Session {
    fn new(job: Job, requests: Streaming<wire::Request>) -> Self {
        let changes = job.with(|state, _, _| state.changes());
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
            last_sent: None,
            pulse,
        }
    }

    /// The next reply; none when the node has closed its side.
    async fn next(&mut self) -> Option<wire::Reply> {
        loop {
            tokio::select! {
                request = self.requests.next(), if self.waiting.len() < MAX_WAITING => match request {
                    Some(Ok(request)) => if let Some(reply) = self.take(request).await {
                        return Some(reply);
                    },
                    Some(Err(_)) | None => return None,
                },
                Some(reply) = self.waiting.next(), if !self.waiting.is_empty() => return Some(reply),
                _ = self.changes.changed() => if let Some(reply) = self.world_change() {
                    return Some(reply);
                },
                _ = self.pulse.tick() => self.pulse(),
            }
        }
    }

    /// Carries out a request. Returns none if its reply is not ready.
    async fn take(&mut self, request: wire::Request) -> Option<wire::Reply> {
        if self.owner.is_none() {
            self.owner = calls::member_of(&request).ok();
            self.number = self.owner.as_ref().map_or(0, |owner| self.job.begin_session(owner));
        }
        if self.worker.is_none()
            && let Some(worker) = calls::worker_of(&request)
        {
            self.job.data().session_begun(&worker);
            self.worker = Some(worker);
        }
        // The first poll makes all decisions, so they are made in the order of the requests. Only the reply may wait.
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

    /// The owner's world, if it has changed since it was last sent.
    fn world_change(&mut self) -> Option<wire::Reply> {
        let mut world = self.job.world_for(self.owner.as_ref()?, false);
        // The status changes with every node that joins. The owner polls for it.
        world.status.clear();
        if self.last_sent.as_ref() == Some(&world) {
            return None;
        }
        self.last_sent = Some(world.clone());
        Some(calls::reply(&self.job, 0, wire::reply::Result::World(world)))
    }

    /// Renews the owner's lease: the other end of an open session answers the pings of the connection.
    fn pulse(&self) {
        if let Some(id) = self.owner.clone() {
            self.job.with(|state, now, out| state.apply(self.job.run(), Event::Heartbeat { id }, now, out));
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
            && self.job.end_session(&id, self.number)
        {
            let event = Event::ConnectionLost { id, grace: GRACE };
            self.job.with(|state, now, out| state.apply(self.job.run(), event, now, out));
        }
    }
}

/// A wait for keys, registered like a connection of the store.
pub(super) struct KeyWaiter {
    job: Job,
    conn: ConnId,
    wake_up: Arc<WakeUp>,
}

#[derive(Default)]
struct WakeUp(Notify);

impl Sink for WakeUp {
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
        let wake_up = Arc::new(WakeUp::default());
        job.state().attach(conn, wake_up.clone());
        job.with(|state, now, out| {
            // The store never refuses a wait. If it did, the caller would check the keys when its time is over.
            let _ = state.keyspace_mut().request(conn, StoreRequest::Wait { keys }, now, out);
        });
        Self { job: job.clone(), conn, wake_up }
    }

    pub(super) async fn woken(&self) {
        self.wake_up.0.notified().await;
    }
}

impl Drop for KeyWaiter {
    fn drop(&mut self) {
        self.job.state().detach(self.conn);
        self.job.with(|state, now, out| state.keyspace_mut().closed(self.conn, now, out));
    }
}
