//! One state for many readers: a long head that is the same for all, and a short tail for each.
//!
//! Every agent of a complete round reads the state each second. What agents read differs only in a few entries at the end.
//! The base64 of everything up to the participants is made once for each round, the tail for each reader. Head and tail
//! are one pickle, cut where its length is a multiple of three, so that their base64 can be concatenated.

use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::node::NodeDesc;
use super::stamp::Stamp;
use super::writer::{Memo, Writer};

/// The state of a round up to and including its participants.
#[derive(Clone)]
pub struct SharedHead {
    base64: Bytes,
    memo: Memo,
    /// The memo indices of the participants, so that a tail names one in two to five bytes.
    nodes: HashMap<NodeDesc, u32>,
}

impl SharedHead {
    /// Writes the head. `participants` are in the order of their joining, each node once.
    pub fn new(
        round: u64,
        complete: bool,
        deadline: Option<Stamp>,
        closed: bool,
        participants: &[(NodeDesc, u64)],
    ) -> Self {
        let mut writer = Writer::default();
        writer.open(round, complete, deadline, closed, participants);
        writer.pad();
        let base64 = STANDARD.encode(writer.pickle()).into();
        let (memo, nodes) = writer.into_memo();
        Self { base64, memo, nodes }
    }

    /// The value for one reader: this head, and a tail with its lists and heartbeats. A reader that finds only its own
    /// heartbeat declares no other node dead.
    pub fn with_tail(
        &self,
        wait_list: &[NodeDesc],
        redundancy_list: &[NodeDesc],
        heartbeats: &[(NodeDesc, Stamp)],
    ) -> (Bytes, Bytes) {
        let mut writer = Writer::after(self.memo, &self.nodes);
        writer.close(wait_list, redundancy_list, heartbeats);
        (self.base64.clone(), STANDARD.encode(writer.pickle()).into())
    }
}

impl fmt::Debug for SharedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedHead").field("bytes", &self.base64.len()).field("nodes", &self.nodes.len()).finish()
    }
}
