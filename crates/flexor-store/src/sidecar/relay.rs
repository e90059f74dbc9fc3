//! What the sidecar remembers and decides: a state machine without sockets and without a clock.
//!
//! Requests of clients, messages of the master and the ups and downs of the link come in; bytes for clients come out in
//! an [`Outbox`], messages for the master from [`take_messages`](Relay::take_messages). Every client sees what an
//! uninterrupted store would have told it, only later.
//!
//! While the link is down a WAIT for keys that answers have shown is answered here, because torchrun gives it 60 s;
//! while the link is up the master alone answers. A key that another pod has deleted since it was shown may so be
//! called present, as if the WAIT had come before the delete: torchrun's rendezvous deletes nothing.

mod connection;
mod line;
mod operation;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use flexor_model::{Generation, Reason};
use flexor_wire::master::v1::{
    Answer, Beat, Hello, KeyResult, Ready, Refusal, ToSidecar, Welcome, from_sidecar::Message, to_sidecar,
};
use tracing::warn;

use self::connection::{Connection, Ways};
use super::kept_results::{KeptResults, is_of_key};
use super::seen_keys::SeenKeys;
use crate::codec::Request;
use crate::service::{ConnId, Outbox};

/// The version of the link's protocol.
const VERSION: u32 = 1;
/// Most bytes of unanswered requests of all connections together.
const MAX_UNANSWERED_BYTES: usize = 128 << 20;
/// Most connections whose client is gone and whose last requests the master has not answered.
const MAX_LINGERING: usize = 1024;
/// Refusals that are about the pod and so will not change.
const FINAL: [Reason; 3] = [Reason::PodGone, Reason::NodeReplaced, Reason::NodeFenced];

/// Whom the sidecar speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The pod's name.
    pub name: String,
    /// The pod's UID; empty where there is none.
    pub uid: String,
}

/// Why a link is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {
    /// A master that has been replaced still answers.
    #[error(
        "this master has generation {found}, but one of generation {seen} was seen: it is a leftover; dialling again"
    )]
    OlderMaster {
        /// The highest generation that was seen.
        seen: Generation,
        /// The one that answered.
        found: Generation,
    },
    /// The master said something before Welcome, or nothing that this version knows.
    #[error("the master said something that makes no sense here ({0}); are both of the same version?")]
    OutOfTurn(&'static str),
    /// The master does not want this link for now.
    #[error("the master refuses the link: {reason}: {detail}")]
    Refused {
        /// A word of the reference page on reasons.
        reason: String,
        /// What it is about.
        detail: String,
    },
    /// The master does not want this pod any more.
    #[error("the master has done with this pod: {reason}: {detail}")]
    PodIsOut {
        /// A word of the reference page on reasons.
        reason: String,
        /// What it is about.
        detail: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Down,
    /// Hello was said, Welcome was not heard.
    Greeting,
    Up,
}

/// The state of a sidecar.
#[derive(Debug)]
pub struct Relay {
    pod: Pod,
    /// This life of the sidecar, for the master to know it from others of the same pod.
    link: u64,
    stage: Stage,
    /// The highest that was seen.
    generation: Generation,
    /// The number of each client's connection. A connection that the master closed is not in `connections` any more,
    /// so that nothing its client still says opens it again.
    numbers: HashMap<ConnId, u64>,
    connections: BTreeMap<u64, Connection>,
    last_connection: u64,
    kept: KeptResults,
    seen: SeenKeys,
    messages: Vec<Message>,
}

impl Relay {
    /// The state of a sidecar that has just begun; `link` is a number that no other life of it has.
    pub fn new(pod: Pod, link: u64) -> Relay {
        Relay {
            pod,
            link,
            stage: Stage::Down,
            generation: Generation::default(),
            numbers: HashMap::new(),
            connections: BTreeMap::new(),
            last_connection: 0,
            kept: KeptResults::default(),
            seen: SeenKeys::default(),
            messages: Vec::new(),
        }
    }

    /// A client asks for something. The first request announces its connection to the master.
    pub fn request(&mut self, conn: ConnId, request: Request, out: &mut Outbox) {
        let number = self.numbers.get(&conn).copied().unwrap_or_else(|| self.open(conn));
        self.with(number, out, |connection, ways| connection.request(request, ways));
    }

    /// A client has closed its connection.
    pub fn closed(&mut self, conn: ConnId, out: &mut Outbox) {
        let Some(number) = self.numbers.remove(&conn) else { return };
        self.with(number, out, Connection::client_gone);
        self.forget_if_done(number);
        let lingering = self.connections.iter().filter(|(_, connection)| connection.client().is_none());
        if lingering.clone().count() > MAX_LINGERING
            && let Some((&oldest, _)) = lingering.clone().next()
        {
            warn!(connection = oldest, "too many clients have gone while the master is away; forgetting the first");
            self.connections.remove(&oldest);
        }
    }

    /// Closes all connections, as if the clients had.
    pub fn close_all(&mut self, out: &mut Outbox) {
        for conn in self.numbers.keys().copied().collect::<Vec<_>>() {
            self.closed(conn, out);
        }
    }

    /// Whether another request of a client may be taken; if not, none may until an answer has come.
    pub fn has_room(&self, conn: ConnId) -> bool {
        let Some(connection) = self.numbers.get(&conn).and_then(|number| self.connections.get(number)) else {
            return true;
        };
        let bytes: usize = self.connections.values().map(Connection::bytes).sum();
        connection.has_room() && bytes < MAX_UNANSWERED_BYTES
    }

    /// A stream to a master is open.
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

    /// The stream is gone. No client is told.
    pub fn link_lost(&mut self, out: &mut Outbox) {
        self.stage = Stage::Down;
        self.messages.clear();
        for number in self.numbers.values().copied().collect::<Vec<_>>() {
            self.with(number, out, Connection::advance);
        }
    }

    /// Whether a master has welcomed this sidecar and is still there, as far as is known.
    pub fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    /// A second has passed: shows the master that the pod is alive.
    pub fn beat(&mut self) {
        if self.stage == Stage::Up {
            self.messages.push(Message::Beat(Beat {}));
        }
    }

    /// The master said something. After an error the link is to be dropped.
    pub fn heard(&mut self, message: ToSidecar, out: &mut Outbox) -> Result<(), LinkFault> {
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
                self.kept.forget_durable(durable.seq);
                Ok(())
            }
            (Stage::Up, Message::Named(named)) => {
                if let Some(connection) = self.connections.get_mut(&named.connection) {
                    connection.named(named.node, named.clock);
                }
                Ok(())
            }
            (Stage::Up, Message::Close(close)) => {
                // Without a client it is the master's word that nothing more will be answered.
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
        let connection = Connection::new(self.last_connection, conn);
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
        self.kept.forget_durable(welcome.durable_seq);
        self.stage = Stage::Up;
        self.messages.extend(self.kept.all().cloned().map(Message::Kept));
        self.messages.extend(self.connections.values().map(Connection::open_message));
        self.messages.push(Message::Ready(Ready {}));
        for number in self.connections.keys().copied().collect::<Vec<_>>() {
            self.with(number, out, Connection::resume);
            self.forget_if_done(number);
        }
        Ok(())
    }

    fn answered(&mut self, answer: Answer, out: &mut Outbox) {
        answer.results.into_iter().for_each(|result| self.learn(result));
        let full: Vec<ConnId> = self.numbers.keys().copied().filter(|conn| !self.has_room(*conn)).collect();
        self.with(answer.connection, out, |connection, ways| connection.answered(answer.number, answer.reply, ways));
        self.forget_if_done(answer.connection);
        full.into_iter().filter(|conn| self.has_room(*conn)).for_each(|conn| out.resume(conn));
    }

    fn learn(&mut self, result: KeyResult) {
        if is_of_key(&result) {
            match result.value {
                Some(_) => self.seen.insert(&result.key),
                None => self.seen.remove(&result.key),
            }
        }
        self.kept.keep(result);
    }

    /// A connection without a client is forgotten when there is nothing left to tell the master about it. That a node's
    /// agent is gone stays to be told until the master has said that it knows: one that is killed with it may not.
    fn forget_if_done(&mut self, number: u64) {
        let Some(connection) = self.connections.get(&number) else { return };
        if connection.client().is_none() && !connection.must_be_closed() {
            self.connections.remove(&number);
        }
    }

    fn with(&mut self, number: u64, out: &mut Outbox, act: impl FnOnce(&mut Connection, &mut Ways<'_>)) {
        if let Some(connection) = self.connections.get_mut(&number) {
            let master = (self.stage == Stage::Up).then_some(&mut self.messages);
            act(connection, &mut Ways { master, seen: &self.seen, out });
        }
    }
}

fn refused(Refusal { reason, detail }: Refusal) -> LinkFault {
    if FINAL.iter().any(|last| last.as_str() == reason) {
        LinkFault::PodIsOut { reason, detail }
    } else {
        LinkFault::Refused { reason, detail }
    }
}
