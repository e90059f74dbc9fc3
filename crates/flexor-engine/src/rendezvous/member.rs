//! The members of a rendezvous and their states.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::natural_order;

/// One incarnation of a node. After a restart the same node has a higher incarnation, or another name where its launcher
/// makes a new name for each process, as torchrun does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberId {
    /// Unique among the nodes of the run.
    pub name: Arc<str>,
    /// A higher incarnation replaces the lower ones.
    pub incarnation: u64,
}

impl MemberId {
    /// Creates the id of one incarnation of a node.
    pub fn new(name: impl Into<Arc<str>>, incarnation: u64) -> Self {
        Self { name: name.into(), incarnation }
    }

    /// The host of a member that torchrun named: `HOST_PID_NUMBER`. Any other name is itself the host.
    pub fn host(&self) -> &str {
        let mut parts = self.name.rsplitn(3, '_');
        let numbers = [parts.next(), parts.next()].map(|part| part.is_some_and(|part| part.parse::<u64>().is_ok()));
        match parts.next() {
            Some(host) if numbers == [true, true] => host,
            Some(_) | None => &self.name,
        }
    }
}

impl Ord for MemberId {
    fn cmp(&self, other: &Self) -> Ordering {
        natural_order::compare(&self.name, &other.name).then_with(|| self.incarnation.cmp(&other.incarnation))
    }
}

impl PartialOrd for MemberId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.incarnation {
            0 => f.write_str(&self.name),
            incarnation => write!(f, "{} (incarnation {incarnation})", self.name),
        }
    }
}

/// The processes that a node contributes to a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// How many processes the node starts or runs.
    pub count: u32,
    /// The processes already run and keep their state across the change.
    pub survive: bool,
}

impl Default for Processes {
    /// One process that is to be started: the assumption for nodes that do not say.
    fn default() -> Self {
        Self { count: 1, survive: false }
    }
}

/// The state of a live member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemberState {
    /// A member of the world of the last complete round.
    InWorld,
    /// Waits for the next round to complete.
    Joined,
    /// Waits without causing a round; joins when the world has room.
    Standby,
    /// Has left the world or the queue and is expected to join again.
    Away,
}

impl MemberState {
    /// The name of the state in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberState::InWorld => "in_world",
            MemberState::Joined => "joined",
            MemberState::Standby => "standby",
            MemberState::Away => "away",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) state: MemberState,
    /// Orders members by when they entered their state; earlier members go first.
    pub(super) since: u64,
    /// The member was in the last complete world.
    pub(super) survivor: bool,
    /// Its program has finished.
    #[serde(default)]
    pub(super) finished: bool,
    #[serde(default)]
    pub(super) processes: Processes,
    /// Its processes survive world changes. The node repeats this in every session.
    #[serde(skip)]
    pub(super) opted_in: bool,
    /// Until when the member counts as alive without a heartbeat.
    #[serde(skip)]
    pub(super) lease_until: Duration,
    #[serde(skip)]
    pub(super) lease: Lease,
}

/// What set the length of a lease, and therefore what its expiry means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lease {
    /// The member sent a heartbeat.
    Heard,
    /// The connection to its sidecar was lost and may come back.
    ConnectionLost,
    /// The master restarted and has had no heartbeat of the member since.
    #[default]
    Restored,
}

/// Counts members by state, so that a decision need not visit all members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Census {
    pub(super) world: u32,
    pub(super) joined: u32,
    pub(super) standby: u32,
    pub(super) away: u32,
}

impl Census {
    pub(super) fn add(&mut self, state: MemberState) {
        *self.at(state) += 1;
    }

    pub(super) fn remove(&mut self, state: MemberState) {
        *self.at(state) -= 1;
    }

    fn at(&mut self, state: MemberState) -> &mut u32 {
        match state {
            MemberState::InWorld => &mut self.world,
            MemberState::Joined => &mut self.joined,
            MemberState::Standby => &mut self.standby,
            MemberState::Away => &mut self.away,
        }
    }
}
