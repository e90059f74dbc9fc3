//! Who takes part in a rendezvous, and where each stands.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::natural_order;

/// One life of a node. The same node after a restart has another incarnation, or another name where its launcher makes
/// a new one for each process, as torchrun does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberId {
    /// The name, unique among the nodes of the run.
    pub name: Arc<str>,
    /// Which life; a higher one ends the lower ones.
    pub incarnation: u64,
}

impl MemberId {
    /// A life of a node.
    pub fn new(name: impl Into<Arc<str>>, incarnation: u64) -> Self {
        Self { name: name.into(), incarnation }
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
            incarnation => write!(f, "{} (life {incarnation})", self.name),
        }
    }
}

/// What a node brings to a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// How many processes it starts, or has.
    pub count: u32,
    /// It has them already, and they keep what they have learnt.
    pub survive: bool,
}

impl Default for Processes {
    /// One that is started: all there is to know of a node that says nothing.
    fn default() -> Self {
        Self { count: 1, survive: false }
    }
}

/// Where a live member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// In the world of the last complete round.
    World,
    /// Has joined and waits for the next round to complete.
    Joined,
    /// Waits without asking for a round; used when there is a place.
    Spare,
    /// Has left the world or the queue and is expected to join again.
    Away,
}

/// What is known of a live member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) place: Place,
    /// The order in which members came to their place; earlier ones go first.
    pub(super) since: u64,
    /// It was in the last complete world.
    pub(super) survivor: bool,
    /// Its program has done its work.
    #[serde(default)]
    pub(super) finished: bool,
    #[serde(default)]
    pub(super) processes: Processes,
    /// Its processes outlive changes. It says so again over every session.
    #[serde(skip)]
    pub(super) opted_in: bool,
    /// Until when it counts as alive without being heard.
    #[serde(skip)]
    pub(super) lease_until: Duration,
    /// What it means when the lease runs out.
    #[serde(skip)]
    pub(super) lease: Lease,
}

/// Why a lease has the length it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lease {
    /// It was heard, and may be silent for a while.
    Heard,
    /// Its sidecar was lost and has a moment to come back.
    ConnectionLost,
    /// The master was started again and has not heard it since.
    #[default]
    Restored,
}

/// How many members stand where, kept so that a decision need not look at everyone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Census {
    pub(super) world: u32,
    pub(super) joined: u32,
    pub(super) spare: u32,
    pub(super) away: u32,
}

impl Census {
    pub(super) fn add(&mut self, place: Place) {
        *self.at(place) += 1;
    }

    pub(super) fn remove(&mut self, place: Place) {
        *self.at(place) -= 1;
    }

    fn at(&mut self, place: Place) -> &mut u32 {
        match place {
            Place::World => &mut self.world,
            Place::Joined => &mut self.joined,
            Place::Spare => &mut self.spare,
            Place::Away => &mut self.away,
        }
    }
}
