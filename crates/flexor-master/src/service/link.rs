//! The service for sidecars: carries the TCPStore connections of a pod over one stream that can be resumed.
//!
//! A sidecar first sends its identity and the changes that it has kept, then its open connections, then Ready. Operations
//! are carried out in order on each connection and at most once, also across restarts of either side. A broken stream does
//! not mean a lost pod: its nodes have a grace to reconnect.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flexor_model::Reason;
use flexor_store::codec::Request as StoreRequest;
use flexor_store::keyspace::{Change, Mutation};
use flexor_store::rendezvous_store::{NamedNode, OperationRecord};
use flexor_store::server::Sink;
use flexor_store::service::{ConnId, Service};
use flexor_wire::master::v1 as wire;
use flexor_wire::master::v1::store_link_server::StoreLink;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use wire::from_sidecar::Message as From;
use wire::to_sidecar::Message as To;

use crate::job::Job;

/// The version of the protocol.
const VERSION: u32 = 1;
/// How long a sidecar may take to send its Hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the heartbeats of a sidecar count for a silent program. After that, the node's own silence limit begins.
const PROGRAM_SILENCE: Duration = Duration::from_secs(4);
/// How often a link checks whether the journal has room again.
const NO_ROOM_RETRY: Duration = Duration::from_millis(20);
/// The most connections of one sidecar, which carries the agents and workers of one pod.
const MAX_CONNECTIONS: usize = 4096;

pub(super) struct LinkService {
    job: Job,
}

impl LinkService {
    pub(super) fn new(job: Job) -> Self {
        Self { job }
    }
}

#[tonic::async_trait]
impl StoreLink for LinkService {
    type LinkStream = Pin<Box<dyn Stream<Item = Result<wire::ToSidecar, Status>> + Send>>;

    async fn link(&self, request: Request<Streaming<wire::FromSidecar>>) -> Result<Response<Self::LinkStream>, Status> {
        let mut incoming = request.into_inner();
        let (outgoing, receiver) = mpsc::unbounded_channel();
        let job = self.job.clone();
        tokio::spawn(async move {
            let first = tokio::time::timeout(HELLO_TIMEOUT, incoming.next()).await;
            let Ok(Some(Ok(wire::FromSidecar { message: Some(From::Hello(hello)) }))) = first else { return };
            let span = tracing::info_span!("node", pod = %hello.pod);
            let link = Link::new(job, hello, outgoing);
            tracing::Instrument::instrument(link.run(incoming), span).await;
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(receiver))))
    }
}

type Outgoing = mpsc::UnboundedSender<Result<wire::ToSidecar, Status>>;

struct Link {
    job: Job,
    hello: wire::Hello,
    outgoing: Outgoing,
    connections: HashMap<u64, Connection>,
    /// Kept changes of the sidecar are taken over: they come from an earlier master and within the recovery time.
    takes_kept_changes: bool,
}

struct Connection {
    conn: ConnId,
    answers: Arc<Answers>,
    is_named: bool,
    /// When its program last sent a request.
    last_request: Duration,
}

impl Connection {
    /// Whether the program counts as alive: a sidecar stays alive while the program beside it hangs. torchrun sends a
    /// request at least every five seconds unless it waits for a reply.
    fn is_alive(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_request) < PROGRAM_SILENCE || self.answers.is_owed()
    }
}

impl Link {
    fn new(job: Job, hello: wire::Hello, outgoing: Outgoing) -> Self {
        let takes_kept_changes = hello.generation < job.generation().0 && job.is_recovering();
        Self { job, hello, outgoing, connections: HashMap::new(), takes_kept_changes }
    }

    async fn run(mut self, mut incoming: Streaming<wire::FromSidecar>) {
        if let Err(refusal) = self.check() {
            tracing::warn!(reason = %refusal.reason, detail = %refusal.detail, "a sidecar was refused");
            self.send(To::Refusal(refusal));
            return;
        }
        let mut durable = self.job.durable_seq();
        let durable_seq = *durable.borrow_and_update();
        self.send(To::Welcome(wire::Welcome { generation: self.job.generation().0, durable_seq }));
        let _registered = self.job.register_link(self.hello.link);
        loop {
            if !self.job.with(|state, _, _| state.can_record()) {
                // The journal has no room: the link reads no further messages.
                tokio::time::sleep(NO_ROOM_RETRY).await;
                continue;
            }
            tokio::select! {
                message = incoming.next() => match message {
                    Some(Ok(wire::FromSidecar { message: Some(message) })) => {
                        if matches!(message, From::Ready(_)) {
                            // Other sidecars may still bring back changes that precede the operations of this one.
                            self.job.wait_for_recovery().await;
                        }
                        if let Err(reason) = self.handle(message) {
                            tracing::warn!(%reason, "a sidecar broke the protocol");
                            let reason = Reason::ProtocolViolation.to_string();
                            self.send(To::Refusal(wire::Refusal { reason, detail: "see the master's log".to_owned() }));
                            break;
                        }
                    }
                    Some(Ok(wire::FromSidecar { message: None })) => {}
                    Some(Err(_)) | None => break,
                },
                Ok(()) = durable.changed() => {
                    let seq = *durable.borrow_and_update();
                    self.send(To::Durable(wire::Durable { seq }));
                }
                () = self.outgoing.closed() => break,
            }
        }
        let conns: Vec<ConnId> = self.connections.values().map(|connection| connection.conn).collect();
        for conn in &conns {
            self.job.state().detach(*conn);
        }
        self.job.with(|state, now, out| state.sidecar_lost(&conns, now, out));
    }

    fn check(&self) -> Result<(), wire::Refusal> {
        let refusal = |reason: Reason, detail: String| Err(wire::Refusal { reason: reason.to_string(), detail });
        if self.hello.version != VERSION {
            let detail = format!("the sidecar speaks version {}, this master {VERSION}", self.hello.version);
            return refusal(Reason::ProtocolViolation, detail);
        }
        let ours = self.job.generation().0;
        if self.hello.generation > ours {
            let detail = format!("the sidecar has seen generation {}, this master has {ours}", self.hello.generation);
            return refusal(Reason::Superseded, detail);
        }
        if !self.job.admit(&self.hello.pod, &self.hello.pod_uid) {
            return refusal(Reason::PodGone, format!("pod {} is gone, as its controller says", self.hello.pod));
        }
        Ok(())
    }

    fn handle(&mut self, message: From) -> Result<(), String> {
        match message {
            From::Hello(_) => return Err("a second Hello".to_owned()),
            From::Kept(_) if !self.takes_kept_changes => {}
            From::Kept(kept) => {
                let mutation = mutation_of(kept);
                self.job.with(|state, _, out| state.restore_key(mutation, out));
            }
            From::Open(open) => self.open(open)?,
            From::Ready(_) => tracing::debug!(connections = self.connections.len(), "sidecar ready"),
            From::Operation(operation) => self.operate(operation)?,
            From::Close(close) => {
                if let Some(connection) = self.connections.remove(&close.connection) {
                    self.job.with(|state, now, out| {
                        state.closed(connection.conn, now, out);
                    });
                    self.job.state().detach(connection.conn);
                }
                self.send(To::Close(close));
            }
            From::Heartbeat(_) => {
                let now = self.job.clock().now();
                let alive = self.connections.values().filter(|connection| connection.is_alive(now));
                let conns: Vec<ConnId> = alive.map(|connection| connection.conn).collect();
                self.job.with(|state, now, out| state.heartbeat(&conns, now, out));
            }
        }
        Ok(())
    }

    fn open(&mut self, open: wire::OpenConnection) -> Result<(), String> {
        if self.connections.len() >= MAX_CONNECTIONS {
            return Err(format!("more than {MAX_CONNECTIONS} connections"));
        }
        let conn = ConnId::fresh();
        let answers = Arc::new(Answers::new(open.connection, self.outgoing.clone()));
        self.job.state().attach(conn, answers.clone());
        let clock = open.clock.unwrap_or_default();
        let named = NamedNode { name: open.node, clock_is_naive: clock.naive, unix_us: clock.unix_us };
        let node = Some(&named).filter(|named| !named.name.is_empty());
        let pod: Arc<str> = self.hello.pod.as_str().into();
        self.job.with(|state, now, out| state.opened_through_sidecar(conn, pod, node, now, out));
        let last_request = self.job.clock().now();
        let connection = Connection { conn, answers, is_named: node.is_some(), last_request };
        if self.connections.insert(open.connection, connection).is_some() {
            return Err(format!("connection {} was opened twice", open.connection));
        }
        Ok(())
    }

    fn operate(&mut self, operation: wire::Operation) -> Result<(), String> {
        let wire::Operation { connection: name, number, request } = operation;
        let connection = self.connections.get_mut(&name).ok_or_else(|| format!("connection {name} is not open"))?;
        let request = StoreRequest::parse(&request).map_err(|error| error.to_string())?;
        connection.last_request = self.job.clock().now();
        let (conn, answers) = (connection.conn, &connection.answers);
        let record = OperationRecord { link: self.hello.link, connection: name, number, reply: Bytes::new() };
        if self.job.with(|state, _, _| state.is_superseded(self.hello.link, name, number)) {
            answers.answer_without_reply(number, &[]);
            return Ok(());
        }
        let has_reply = has_reply(&request);
        if has_reply {
            answers.expect(number, &request);
        }
        let outcome = self.job.with(|state, now, out| {
            let outcome = state.request_of_sidecar(conn, request, record, now, out);
            if let Ok(results) = &outcome {
                if has_reply {
                    answers.set_results(number, results);
                } else {
                    answers.answer_without_reply(number, results);
                }
            }
            outcome.map(|_| state.node_of(conn))
        });
        match outcome {
            Ok(Some(node)) if !connection.is_named => {
                connection.is_named = true;
                let clock = Some(wire::NodeClock { naive: node.clock_is_naive, unix_us: node.unix_us });
                self.send(To::Named(wire::Named { connection: name, node: node.name, clock }));
            }
            Ok(_) => {}
            Err(refused) => {
                tracing::warn!(connection = name, reason = %refused, "a connection was closed");
                self.send(To::Close(wire::CloseConnection { connection: name }));
            }
        }
        Ok(())
    }

    fn send(&self, message: To) {
        // If the stream has ended, the loop of the link ends too.
        let _ = self.outgoing.send(Ok(wire::ToSidecar { message: Some(message) }));
    }
}

/// Turns the bytes that the store sends to one connection into answers to the operations of that connection.
struct Answers {
    connection: u64,
    outgoing: Outgoing,
    pending: Mutex<VecDeque<PendingAnswer>>,
}

struct PendingAnswer {
    number: u64,
    is_wait: bool,
    results: Vec<wire::KeyResult>,
}

impl Answers {
    fn new(connection: u64, outgoing: Outgoing) -> Self {
        Self { connection, outgoing, pending: Mutex::default() }
    }

    /// Notes that the next reply of the store, after those already pending, answers this operation.
    fn expect(&self, number: u64, request: &StoreRequest) {
        let is_wait = matches!(request, StoreRequest::Wait { .. } | StoreRequest::Barrier { .. });
        if matches!(request, StoreRequest::CancelWait) {
            // A cancelled wait gets no answer of its own.
            self.lock().retain(|pending| !pending.is_wait);
        }
        self.lock().push_back(PendingAnswer { number, is_wait, results: Vec::new() });
    }

    /// Whether the connection waits for a reply.
    fn is_owed(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Answers an operation that has no reply in TCPStore's protocol.
    fn answer_without_reply(&self, number: u64, results: &[Mutation]) {
        let results = results.iter().cloned().map(result_of).collect();
        self.answer(number, Bytes::new(), results);
    }

    fn answer(&self, number: u64, reply: Bytes, results: Vec<wire::KeyResult>) {
        let answer = wire::Answer { connection: self.connection, number, reply, results };
        let _ = self.outgoing.send(Ok(wire::ToSidecar { message: Some(To::Answer(answer)) }));
    }

    /// Sets the changes that an operation made or read, to be sent with its reply.
    fn set_results(&self, number: u64, results: &[Mutation]) {
        if let Some(pending) = self.lock().iter_mut().find(|pending| pending.number == number) {
            pending.results = results.iter().cloned().map(result_of).collect();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<PendingAnswer>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Answers {
    fn send(&self, reply: Bytes) {
        let Some(pending) = self.lock().pop_front() else { return };
        self.answer(pending.number, reply, pending.results);
    }

    fn close(&self, reason: &str) {
        tracing::warn!(connection = self.connection, reason, "a connection was closed");
        let close = wire::CloseConnection { connection: self.connection };
        let _ = self.outgoing.send(Ok(wire::ToSidecar { message: Some(To::Close(close)) }));
    }
}

/// Whether a request has a reply in TCPStore's protocol.
fn has_reply(request: &StoreRequest) -> bool {
    !matches!(
        request,
        StoreRequest::Validate
            | StoreRequest::Set { .. }
            | StoreRequest::MultiSet { .. }
            | StoreRequest::Append { .. }
            | StoreRequest::QueuePush { .. }
    )
}

fn result_of(Mutation { seq, key, change }: Mutation) -> wire::KeyResult {
    let deleted = wire::KeyResult { seq, key, value: None, pushed: None, popped: None };
    match change {
        Change::Set(value) => wire::KeyResult { value: Some(value), ..deleted },
        Change::Deleted => deleted,
        Change::Pushed(value) => wire::KeyResult { pushed: Some(value), ..deleted },
        Change::Popped { pushed } => wire::KeyResult { popped: Some(pushed), ..deleted },
    }
}

fn mutation_of(result: wire::KeyResult) -> Mutation {
    let change = match (result.value, result.pushed, result.popped) {
        (Some(value), _, _) => Change::Set(value),
        (None, Some(value), _) => Change::Pushed(value),
        (None, None, Some(pushed)) => Change::Popped { pushed },
        (None, None, None) => Change::Deleted,
    };
    Mutation { seq: result.seq, key: result.key, change }
}
