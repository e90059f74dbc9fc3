//! What is written down so that a store can be built again after its process has ended.

use std::sync::Arc;

use bytes::Bytes;
use flexor_engine::rendezvous::Fact;

use crate::keyspace::Mutation;

/// A run of torchrun: what `--rdzv-id` names.
pub type RunId = Arc<str>;

/// One thing that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreFact {
    /// A key or queue.
    Key(Mutation),
    /// The rendezvous of a run.
    Rendezvous {
        /// Which.
        run: RunId,
        /// What was decided.
        fact: Fact,
    },
    /// An operation of a sidecar was carried out, so that it is not carried out again.
    Operation(Origin),
}

/// Where an operation came from, and what it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The sidecar, by the number it chose at its start.
    pub link: u64,
    /// Its connection.
    pub connection: u64,
    /// The operation's number on that connection.
    pub number: u64,
    /// The answer, where there was one at once.
    pub reply: Bytes,
}

/// The place of a record in the journal. Later ones are greater.
pub type Lsn = u64;

/// Where facts are written.
pub trait Recorder: Send {
    /// Writes them down, in order and together.
    fn record(&mut self, facts: &[StoreFact]) -> Recorded;

    /// Up to where records survive the end of the machine too.
    fn durable(&self) -> Lsn;

    /// Whether more can be taken. While not, nobody is read from.
    fn has_room(&self) -> bool {
        true
    }
}

/// What became of facts that were to be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Their place.
    pub lsn: Lsn,
    /// They survive the end of the process, if not yet of the machine. Otherwise nobody may be answered before they are
    /// durable.
    pub kept: bool,
}

/// Writes nothing down: for stores whose memory may end with their process.
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
