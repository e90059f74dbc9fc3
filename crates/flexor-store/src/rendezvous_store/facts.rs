//! The facts from which a store and its rendezvous are rebuilt after a restart, and the interface of their journal.

use bytes::Bytes;
use flexor_engine::rendezvous::Fact;
pub use flexor_engine::rendezvous::RunId;

use crate::keyspace::Mutation;

/// One journaled change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreFact {
    /// A key or queue changed.
    Key(Mutation),
    /// The rendezvous of a run decided something.
    Rendezvous { run: RunId, fact: Fact },
    /// An operation of a sidecar was completed and must not be repeated.
    Operation(OperationRecord),
}

/// A completed operation of a sidecar, with its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRecord {
    /// The sidecar, by the number that it chose at its start.
    pub link: u64,
    /// The connection of that sidecar.
    pub connection: u64,
    /// The operation's number on that connection.
    pub number: u64,
    /// The reply, if the operation was answered at once.
    pub reply: Bytes,
}

/// The position of a record in the journal. Later records have greater positions.
pub type Lsn = u64;

/// The journal of facts.
pub trait Recorder: Send {
    /// Writes facts in order, as one atomic record.
    fn record(&mut self, facts: &[StoreFact]) -> Recorded;

    /// The position up to which records survive a crash of the machine.
    fn durable(&self) -> Lsn;

    /// Whether the journal takes more records. While it does not, no requests are read.
    fn has_room(&self) -> bool {
        true
    }
}

/// The result of writing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    pub lsn: Lsn,
    /// The record survives the end of the process, if not yet a crash of the machine. If false, no reply may be sent
    /// before the record is durable.
    pub kept: bool,
}

/// A journal that writes nothing: for stores that end with their process.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    fn record(&mut self, _: &[StoreFact]) -> Recorded {
        Recorded { lsn: 0, kept: true }
    }

    fn durable(&self) -> Lsn {
        Lsn::MAX
    }
}
