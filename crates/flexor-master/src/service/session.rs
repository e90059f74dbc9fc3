//! The service that nodes call: alone, or over a session that tells them every change of their world.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flexor_engine::rendezvous::{Event, MemberId};
use flexor_store::codec::Request as StoreRequest;
use flexor_store::server::Sink;
use flexor_store::service::{ConnId, Service};
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::master_server::Master;
use futures::{Stream, StreamExt};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument;

use super::calls;
use crate::job::Job;

/// How many answers a session may leave unread before it is read from no more.
const ANSWERS: usize = 256;
/// How many requests of a session may wait for something at a time.
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
        let (answers, receiver) = mpsc::channel(ANSWERS);
        let session =
            Session { job: self.job.clone(), answers, owner: None, waiting: Arc::new(Semaphore::new(WAITING)) };
        tokio::spawn(session.run(request.into_inner()));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

struct Session {
    job: Job,
    answers: mpsc::Sender<Result<wire::Reply, Status>>,
    /// The node that counts as alive while the session is open.
    owner: Option<MemberId>,
    waiting: Arc<Semaphore>,
}

impl Session {
    async fn run(mut self, mut requests: Streaming<wire::Request>) {
        let mut changes = self.job.with(|store, _, _| store.changes());
        let mut pulse = tokio::time::interval(Duration::from_secs(1));
        let mut told = None;
        loop {
            tokio::select! {
                request = requests.next() => match request {
                    Some(Ok(request)) => self.take(request).await,
                    Some(Err(_)) | None => break,
                },
                _ = changes.changed() => self.tell_world(&mut told).await,
                _ = pulse.tick() => self.pulse(),
                () = self.answers.closed() => break,
            }
        }
        if let Some(id) = self.owner {
            let event = Event::SidecarLost { id, grace: GRACE };
            self.job.with(|store, now, out| store.tell(self.job.run(), event, now, out));
        }
    }

    async fn take(&mut self, request: wire::Request) {
        if self.owner.is_none() {
            self.owner = calls::member_of(&request).ok();
        }
        // What may wait must not hold up what comes after it.
        if matches!(request.op, Some(wire::request::Op::Poll(_) | wire::request::Op::Wait(_))) {
            let Ok(permit) = Arc::clone(&self.waiting).acquire_owned().await else { return };
            let (job, answers) = (self.job.clone(), self.answers.clone());
            let answered = async move {
                let reply = calls::answer(&job, request).await;
                let _ = answers.send(Ok(reply)).await;
                drop(permit);
            };
            tokio::spawn(answered.in_current_span());
            return;
        }
        let reply = calls::answer(&self.job, request).await;
        let _ = self.answers.send(Ok(reply)).await;
    }

    /// Tells the owner where it stands, if that is something else than it was told last.
    async fn tell_world(&self, told: &mut Option<wire::World>) {
        let Some(id) = &self.owner else { return };
        let mut world = self.job.world_for(id, false);
        // What is waited for changes with every node that joins; the owner asks if it wants to know.
        world.standing.clear();
        if told.as_ref() == Some(&world) {
            return;
        }
        *told = Some(world.clone());
        let generation = self.job.generation().0;
        let durable_seq = *self.job.durable_seq().borrow();
        let result = Some(wire::reply::Result::World(world));
        let _ = self.answers.send(Ok(wire::Reply { id: 0, generation, durable_seq, result })).await;
    }

    /// An open session is a sign of life: its other end answers the pings of the connection.
    fn pulse(&self) {
        if let Some(id) = self.owner.clone() {
            self.job.with(|store, now, out| store.tell(self.job.run(), Event::Heard { id }, now, out));
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
