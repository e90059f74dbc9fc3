//! The service that sidecars call: the TCPStore connections of a pod over one stream that can be taken up again.
//!
//! A sidecar first says who it is and what it has kept, then which connections are open, then it is ready. Operations
//! are carried out in their order on each connection and at most once, also across restarts of either side. A stream that
//! breaks is not a pod that died: its nodes have a moment to come back.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flexor_model::Reason;
use flexor_store::aware::{NamedNode, Origin};
use flexor_store::codec::Request as StoreRequest;
use flexor_store::keyspace::{Change, Mutation};
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

/// The version of the protocol that is spoken here.
const VERSION: u32 = 1;
/// How long a sidecar may take to say who it is.
const HELLO: Duration = Duration::from_secs(10);
/// How long the signs of life of a sidecar count for a program that says nothing. A node is lost after its silence on top
/// of this.
const PROGRAM_SILENCE: Duration = Duration::from_secs(4);
/// How long to wait before looking again whether the journal has room.
const NO_ROOM: Duration = Duration::from_millis(20);
/// A sidecar carries the agents and workers of one pod.
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
            let first = tokio::time::timeout(HELLO, incoming.next()).await;
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
    /// What the sidecar kept is news: it comes from a master before this one, and in time.
    takes_kept: bool,
}

struct Connection {
    conn: ConnId,
    answers: Arc<Answers>,
    named: bool,
    /// When its program last asked for something.
    spoke: Duration,
}

impl Connection {
    /// A sidecar lives on while the program beside it hangs. torchrun says something every five seconds whatever else it
    /// does, unless it waits for an answer.
    fn is_alive(&self, now: Duration) -> bool {
        now.saturating_sub(self.spoke) < PROGRAM_SILENCE || self.answers.is_owed()
    }
}

impl Link {
    fn new(job: Job, hello: wire::Hello, outgoing: Outgoing) -> Self {
        let takes_kept = hello.generation < job.generation().0 && job.is_recovering();
        Self { job, hello, outgoing, connections: HashMap::new(), takes_kept }
    }

    async fn run(mut self, mut incoming: Streaming<wire::FromSidecar>) {
        if let Err(refusal) = self.check() {
            tracing::warn!(reason = %refusal.reason, detail = %refusal.detail, "a sidecar was sent away");
            self.say(To::Refusal(refusal));
            return;
        }
        let mut durable = self.job.durable_seq();
        let durable_seq = *durable.borrow_and_update();
        self.say(To::Welcome(wire::Welcome { generation: self.job.generation().0, durable_seq }));
        let _registered = self.job.register_link(self.hello.link);
        loop {
            if !self.job.with(|store, _, _| store.can_record()) {
                // Too much waits to be written: nothing more is taken until it is.
                tokio::time::sleep(NO_ROOM).await;
                continue;
            }
            tokio::select! {
                message = incoming.next() => match message {
                    Some(Ok(wire::FromSidecar { message: Some(message) })) => {
                        if matches!(message, From::Ready(_)) {
                            // The others may still bring what this one's operations must not overtake.
                            self.job.recovered().await;
                        }
                        if let Err(reason) = self.take(message) {
                            tracing::warn!(%reason, "a sidecar broke the protocol");
                            let reason = Reason::ProtocolViolation.to_string();
                            self.say(To::Refusal(wire::Refusal { reason, detail: "see the master's log".to_owned() }));
                            break;
                        }
                    }
                    Some(Ok(wire::FromSidecar { message: None })) => {}
                    Some(Err(_)) | None => break,
                },
                Ok(()) = durable.changed() => {
                    let seq = *durable.borrow_and_update();
                    self.say(To::Durable(wire::Durable { seq }));
                }
                () = self.outgoing.closed() => break,
            }
        }
        let conns: Vec<ConnId> = self.connections.values().map(|connection| connection.conn).collect();
        for conn in &conns {
            self.job.store().detach(*conn);
        }
        self.job.with(|store, now, out| store.sidecar_lost(&conns, now, out));
    }

    fn check(&self) -> Result<(), wire::Refusal> {
        let refusal = |reason: Reason, detail: String| Err(wire::Refusal { reason: reason.to_string(), detail });
        if self.hello.version != VERSION {
            let detail = format!("the sidecar speaks version {}, this master {VERSION}", self.hello.version);
            return refusal(Reason::ProtocolViolation, detail);
        }
        let ours = self.job.generation().0;
        if self.hello.generation > ours {
            let detail = format!("the sidecar knows generation {}, this master is {ours}", self.hello.generation);
            return refusal(Reason::Superseded, detail);
        }
        if !self.job.admit(&self.hello.pod, &self.hello.pod_uid) {
            return refusal(Reason::PodGone, format!("pod {} is gone, as its controller says", self.hello.pod));
        }
        Ok(())
    }

    fn take(&mut self, message: From) -> Result<(), String> {
        match message {
            From::Hello(_) => return Err("a second greeting".to_owned()),
            From::Kept(_) if !self.takes_kept => {}
            From::Kept(kept) => {
                let mutation = mutation_of(kept);
                self.job.with(|store, _, out| store.restore_key(mutation, out));
            }
            From::Open(open) => self.open(open)?,
            From::Ready(_) => tracing::debug!(connections = self.connections.len(), "sidecar ready"),
            From::Operation(operation) => self.operate(operation)?,
            From::Close(close) => {
                if let Some(connection) = self.connections.remove(&close.connection) {
                    self.job.with(|store, now, out| {
                        store.closed(connection.conn, now, out);
                    });
                    self.job.store().detach(connection.conn);
                }
                self.say(To::Close(close));
            }
            From::Beat(_) => {
                let now = self.job.clock().now();
                let alive = self.connections.values().filter(|connection| connection.is_alive(now));
                let conns: Vec<ConnId> = alive.map(|connection| connection.conn).collect();
                self.job.with(|store, now, out| store.heard(&conns, now, out));
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
        self.job.store().attach(conn, answers.clone());
        let clock = open.clock.unwrap_or_default();
        let named = NamedNode { name: open.node, clock_is_naive: clock.naive, unix_us: clock.unix_us };
        let node = Some(&named).filter(|named| !named.name.is_empty());
        let pod: Arc<str> = self.hello.pod.as_str().into();
        self.job.with(|store, now, out| store.opened_through_sidecar(conn, pod, node, now, out));
        let spoke = self.job.clock().now();
        let connection = Connection { conn, answers, named: node.is_some(), spoke };
        if self.connections.insert(open.connection, connection).is_some() {
            return Err(format!("connection {} was opened twice", open.connection));
        }
        Ok(())
    }

    fn operate(&mut self, operation: wire::Operation) -> Result<(), String> {
        let wire::Operation { connection: name, number, request } = operation;
        let connection = self.connections.get_mut(&name).ok_or_else(|| format!("connection {name} is not open"))?;
        let request = StoreRequest::parse(&request).map_err(|error| error.to_string())?;
        connection.spoke = self.job.clock().now();
        let (conn, answers) = (connection.conn, &connection.answers);
        let origin = Origin { link: self.hello.link, connection: name, number, reply: Bytes::new() };
        if self.job.with(|store, _, _| store.is_long_done(self.hello.link, name, number)) {
            answers.done(number, &[]);
            return Ok(());
        }
        let answered = has_reply(&request);
        if answered {
            answers.expect(number, &request);
        }
        let outcome = self.job.with(|store, now, out| {
            let outcome = store.request_of_sidecar(conn, request, origin, now, out);
            if let Ok(results) = &outcome {
                if answered { answers.with_results(number, results) } else { answers.done(number, results) }
            }
            outcome.map(|_| store.node_of(conn))
        });
        match outcome {
            Ok(Some(node)) if !connection.named => {
                connection.named = true;
                let clock = Some(wire::NodeClock { naive: node.clock_is_naive, unix_us: node.unix_us });
                self.say(To::Named(wire::Named { connection: name, node: node.name, clock }));
            }
            Ok(_) => {}
            Err(refused) => {
                tracing::warn!(connection = name, reason = %refused, "a connection was closed");
                self.say(To::Close(wire::CloseConnection { connection: name }));
            }
        }
        Ok(())
    }

    fn say(&self, message: To) {
        // A stream that is gone ends the loop by itself.
        let _ = self.outgoing.send(Ok(wire::ToSidecar { message: Some(message) }));
    }
}

/// Turns the bytes that the store sends to one connection into answers to its operations.
struct Answers {
    connection: u64,
    outgoing: Outgoing,
    expected: Mutex<VecDeque<Expected>>,
}

struct Expected {
    number: u64,
    waits: bool,
    results: Vec<wire::KeyResult>,
}

impl Answers {
    fn new(connection: u64, outgoing: Outgoing) -> Self {
        Self { connection, outgoing, expected: Mutex::default() }
    }

    /// An operation is about to be carried out.
    fn expect(&self, number: u64, request: &StoreRequest) {
        let waits = matches!(request, StoreRequest::Wait { .. } | StoreRequest::Barrier { .. });
        if matches!(request, StoreRequest::CancelWait) {
            // What is taken back gets no answer of its own.
            self.lock().retain(|expected| !expected.waits);
        }
        self.lock().push_back(Expected { number, waits, results: Vec::new() });
    }

    /// Whether the connection waits for an answer.
    fn is_owed(&self) -> bool {
        !self.lock().is_empty()
    }

    /// An operation that has no reply was carried out.
    fn done(&self, number: u64, results: &[Mutation]) {
        let results = results.iter().cloned().map(result_of).collect();
        self.answer(number, Bytes::new(), results);
    }

    fn answer(&self, number: u64, reply: Bytes, results: Vec<wire::KeyResult>) {
        let answer = wire::Answer { connection: self.connection, number, reply, results };
        let _ = self.outgoing.send(Ok(wire::ToSidecar { message: Some(To::Answer(answer)) }));
    }

    /// What the operation showed or changed, to go with its reply.
    fn with_results(&self, number: u64, results: &[Mutation]) {
        if let Some(expected) = self.lock().iter_mut().find(|expected| expected.number == number) {
            expected.results = results.iter().cloned().map(result_of).collect();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Expected>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Answers {
    fn send(&self, reply: Bytes) {
        let Some(expected) = self.lock().pop_front() else { return };
        self.answer(expected.number, reply, expected.results);
    }

    fn close(&self, reason: &str) {
        tracing::warn!(connection = self.connection, reason, "a connection was closed");
        let close = wire::CloseConnection { connection: self.connection };
        let _ = self.outgoing.send(Ok(wire::ToSidecar { message: Some(To::Close(close)) }));
    }
}

/// Whether TCPStore answers such a request.
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
    let nothing = wire::KeyResult { seq, key, value: None, pushed: None, popped: None };
    match change {
        Change::Set(value) => wire::KeyResult { value: Some(value), ..nothing },
        Change::Deleted => nothing,
        Change::Pushed(value) => wire::KeyResult { pushed: Some(value), ..nothing },
        Change::Popped { pushed } => wire::KeyResult { popped: Some(pushed), ..nothing },
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
