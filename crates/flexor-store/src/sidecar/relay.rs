//! The state machine of a sidecar, without sockets and without a clock.
//!
//! It takes requests of clients, messages of the master and the state of the link. It returns bytes for clients in an
//! [`Outbox`] and messages for the master in [`take_messages`](Relay::take_messages). Every client sees the replies of an
//! uninterrupted store, only later.
//!
//! While the link is down, the relay itself answers a WAIT for keys that earlier answers have shown, because torchrun
//! waits only 60 s. While the link is up, only the master answers. If another pod has deleted such a key since, the WAIT
//! succeeds as if it had come before the delete; torchrun's rendezvous deletes no keys.

mod connection;
mod listed_keys;
mod operation;
mod request_queue;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use flexor_model::{Generation, Reason};
use flexor_wire::master::v1::{
    Answer, Heartbeat, Hello, KeyResult, Ready, Refusal, ToSidecar, Welcome, from_sidecar::Message, to_sidecar,
};
use tracing::warn;

use self::connection::{RelayContext, RelayedConnection};
use super::known_keys::KnownKeys;
use super::undurable_results::{UndurableResults, is_of_key};
use crate::codec::Request;
use crate::service::{ConnId, Outbox};

/// The version of the link's protocol.
const VERSION: u32 = 1;
/// The limit for the bytes of unanswered requests of all connections.
const MAX_UNANSWERED_BYTES: usize = 128 << 20;
/// The most connections whose client has closed them and whose last requests are unanswered.
const MAX_LINGERING: usize = 1024;
/// Refusals of the pod itself, which are final.
const FINAL_REFUSALS: [Reason; 3] = [Reason::PodGone, Reason::NodeReplaced, Reason::NodeFenced];

/// The pod of the sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    /// Empty if the pod has no UID.
    pub uid: String,
}

/// Why a link has to be dropped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {
    /// A master that was replaced still answers.
    #[error("this master has generation {found}, but one of generation {seen} was seen: it was replaced; reconnecting")]
    OlderMaster {
        /// The highest generation that the sidecar has seen.
        seen: Generation,
        /// The generation of the master that answered.
        found: Generation,
    },
    /// The master sent a message before Welcome, or one that this version does not know.
    #[error("the master sent an unexpected message ({0}); are both of the same version?")]
    OutOfTurn(&'static str),
    /// The master refuses the link; a later attempt may succeed.
    #[error("the master refuses the link: {reason}: {detail}")]
    Refused {
        /// One of docs/reference/reasons.md.
        reason: String,
        detail: String,
    },
    /// The master refuses the pod for good.
    #[error("the master refuses this pod for good: {reason}: {detail}")]
    PodRejected {
        /// One of docs/reference/reasons.md.
        reason: String,
        detail: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Down,
    /// Hello was sent, Welcome was not received.
    Greeting,
    Up,
}

/// The state of a sidecar.
#[derive(Debug)]
pub struct Relay {
    pod: Pod,
    /// Identifies this incarnation of the sidecar among those of the same pod.
    link: u64,
    stage: Stage,
    /// The highest generation that was seen.
    generation: Generation,
    /// The number of each client's connection. A connection that the master has closed stays here and not in
    /// `connections`, so that later requests of its client do not open it again.
    numbers: HashMap<ConnId, u64>,
    connections: BTreeMap<u64, RelayedConnection>,
    last_connection: u64,
    undurable: UndurableResults,
    known_keys: KnownKeys,
    /// Stands before every key of the clients.
    prefix: Bytes,
    messages: Vec<Message>,
}

impl Relay {
    /// Creates the relay of a sidecar. `link` must be unique among the incarnations of the sidecar.
    pub fn new(pod: Pod, link: u64) -> Relay {
        Relay {
            pod,
            link,
            stage: Stage::Down,
            generation: Generation::default(),
            numbers: HashMap::new(),
            connections: BTreeMap::new(),
            last_connection: 0,
            undurable: UndurableResults::default(),
            known_keys: KnownKeys::default(),
            prefix: Bytes::new(),
            messages: Vec::new(),
        }
    }

    /// Puts a prefix before every key, so that the clients of this relay have their own store within the master's.
    pub fn set_prefix(&mut self, prefix: Bytes) {
        self.prefix = prefix;
    }

    /// Takes a request of a client. The first request opens the connection at the master.
    pub fn request(&mut self, conn: ConnId, request: Request, out: &mut Outbox) {
        let number = self.numbers.get(&conn).copied().unwrap_or_else(|| self.open(conn));
        self.with(number, out, |connection, context| connection.request(request, context));
    }

    /// Takes note that a client has closed its connection.
    pub fn closed(&mut self, conn: ConnId, out: &mut Outbox) {
        let Some(number) = self.numbers.remove(&conn) else { return };
        self.with(number, out, RelayedConnection::client_closed);
        self.forget_if_closed(number);
        let lingering = self.connections.iter().filter(|(_, connection)| connection.client().is_none());
        if lingering.clone().count() > MAX_LINGERING
            && let Some((&oldest, _)) = lingering.clone().next()
        {
            warn!(
                connection = oldest,
                "too many clients closed their connections while the master is unreachable; forgetting the oldest"
            );
            self.connections.remove(&oldest);
        }
    }

    /// Closes all connections as if their clients had.
    pub fn close_all(&mut self, out: &mut Outbox) {
        for conn in self.numbers.keys().copied().collect::<Vec<_>>() {
            self.closed(conn, out);
        }
    }

    /// Whether the relay takes another request of a client. If not, it takes none before the next answer.
    pub fn has_room(&self, conn: ConnId) -> bool {
        let Some(connection) = self.numbers.get(&conn).and_then(|number| self.connections.get(number)) else {
            return true;
        };
        let bytes: usize = self.connections.values().map(RelayedConnection::bytes).sum();
        connection.has_room() && bytes < MAX_UNANSWERED_BYTES
    }

    /// Takes note that a stream to a master is open.
    pub fn link_opened(&mut self) {
        self.messages.clear();
        self.stage = Stage::Greeting;
        self.messages.push(Message::Hello(Hello {
            version: VERSION,
            pod: self.pod.name.clone(),
            pod_uid: self.pod.uid.clone(),
            link: self.link,
            generation: self.generation.0,
        }));
    }

    /// Takes note that the stream broke. Clients do not notice.
    pub fn link_lost(&mut self, out: &mut Outbox) {
        self.stage = Stage::Down;
        self.messages.clear();
        for number in self.numbers.values().copied().collect::<Vec<_>>() {
            self.with(number, out, RelayedConnection::advance);
        }
    }

    /// Whether a master has welcomed this sidecar and the stream is open.
    pub fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    /// Sends a heartbeat. To be called every second.
    pub fn heartbeat(&mut self) {
        if self.stage == Stage::Up {
            self.messages.push(Message::Heartbeat(Heartbeat {}));
        }
    }

    /// Takes a message of the master. After an error the link has to be dropped.
    pub fn receive(&mut self, message: ToSidecar, out: &mut Outbox) -> Result<(), LinkFault> {
        use to_sidecar::Message;
        match (self.stage, message.message.ok_or(LinkFault::OutOfTurn("an unknown message"))?) {
            (_, Message::Refusal(refusal)) => Err(refused(refusal)),
            (Stage::Greeting, Message::Welcome(welcome)) => self.welcomed(&welcome, out),
            (Stage::Greeting | Stage::Down, _) => Err(LinkFault::OutOfTurn("no Welcome")),
            (Stage::Up, Message::Welcome(_)) => Err(LinkFault::OutOfTurn("a second Welcome")),
            (Stage::Up, Message::Answer(answer)) => {
                self.answered(answer, out);
                Ok(())
            }
            (Stage::Up, Message::Durable(durable)) => {
                self.undurable.forget_durable(durable.seq);
                Ok(())
            }
            (Stage::Up, Message::Named(named)) => {
                if let Some(connection) = self.connections.get_mut(&named.connection) {
                    connection.named(named.node, named.clock);
                }
                Ok(())
            }
            (Stage::Up, Message::Close(close)) => {
                // For a connection without a client this confirms that the master has closed it.
                if let Some(client) = self.connections.remove(&close.connection).and_then(|gone| gone.client()) {
                    out.close(client, "the master has closed it");
                }
                Ok(())
            }
        }
    }

    /// Takes the messages for the master, in order.
    pub fn take_messages(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }

    fn open(&mut self, conn: ConnId) -> u64 {
        self.last_connection += 1;
        let connection = RelayedConnection::new(self.last_connection, conn);
        if self.stage == Stage::Up {
            self.messages.push(connection.open_message());
        }
        self.connections.insert(self.last_connection, connection);
        self.numbers.insert(conn, self.last_connection);
        self.last_connection
    }

    fn welcomed(&mut self, welcome: &Welcome, out: &mut Outbox) -> Result<(), LinkFault> {
        let found = Generation(welcome.generation);
        if found < self.generation {
            return Err(LinkFault::OlderMaster { seen: self.generation, found });
        }
        self.generation = found;
        self.undurable.forget_durable(welcome.durable_seq);
        self.stage = Stage::Up;
        self.messages.extend(self.undurable.all().cloned().map(Message::Kept));
        self.messages.extend(self.connections.values().map(RelayedConnection::open_message));
        self.messages.push(Message::Ready(Ready {}));
        for number in self.connections.keys().copied().collect::<Vec<_>>() {
            self.with(number, out, RelayedConnection::resume);
            self.forget_if_closed(number);
        }
        Ok(())
    }

    fn answered(&mut self, answer: Answer, out: &mut Outbox) {
        answer.results.into_iter().for_each(|result| self.learn(result));
        let full: Vec<ConnId> = self.numbers.keys().copied().filter(|conn| !self.has_room(*conn)).collect();
        self.with(answer.connection, out, |connection, context| {
            connection.answered(answer.number, answer.reply, context);
        });
        self.forget_if_closed(answer.connection);
        full.into_iter().filter(|conn| self.has_room(*conn)).for_each(|conn| out.resume(conn));
    }

    fn learn(&mut self, result: KeyResult) {
        if is_of_key(&result) {
            match result.value {
                Some(_) => self.known_keys.insert(&result.key),
                None => self.known_keys.remove(&result.key),
            }
        }
        self.undurable.keep(result);
    }

    /// Forgets a connection without a client when the master knows all about it. The close of an agent's connection is
    /// repeated until the master confirms it: a master that is killed at the same time may have missed it.
    fn forget_if_closed(&mut self, number: u64) {
        let Some(connection) = self.connections.get(&number) else { return };
        if connection.client().is_none() && !connection.needs_close() {
            self.connections.remove(&number);
        }
    }

    fn with(&mut self, number: u64, out: &mut Outbox, act: impl FnOnce(&mut RelayedConnection, &mut RelayContext<'_>)) {
        if let Some(connection) = self.connections.get_mut(&number) {
            let master = (self.stage == Stage::Up).then_some(&mut self.messages);
            act(connection, &mut RelayContext { master, known_keys: &self.known_keys, prefix: &self.prefix, out });
        }
    }
}

fn refused(Refusal { reason, detail }: Refusal) -> LinkFault {
    if FINAL_REFUSALS.iter().any(|final_reason| final_reason.as_str() == reason) {
        LinkFault::PodRejected { reason, detail }
    } else {
        LinkFault::Refused { reason, detail }
    }
}
