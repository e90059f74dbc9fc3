//! What a server is for each partition, and who has to have the same before anybody is answered.
//!
//! A post is locked while its partition is changed, so that what is sent to copies has the order in which it was applied,
//! and nothing is applied after the server has heard that it is not the owner any more.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::ServerName;
use super::links::Link;
use crate::placement::PartitionId;

/// What the server is for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    /// It has nothing of it, or only a copy that is not whole or not wanted yet.
    #[default]
    Away,
    /// It answers for it.
    Owner,
    /// It keeps a copy.
    Backup,
}

/// Somebody who gets everything that is applied.
pub(super) struct Follower {
    pub(super) server: ServerName,
    pub(super) link: Arc<Link>,
    /// The copy that it has, by the number that it was sent with; none for one that had everything from the start.
    pub(super) copy: Option<u64>,
    /// The last order of the master that was about it: reports carry its number.
    pub(super) order: Option<u64>,
    /// It has everything: nobody is answered before it has the same.
    pub(super) is_whole: bool,
    /// It has missed something: nobody is answered before the master has said what becomes of it.
    pub(super) is_lost: bool,
}

impl Follower {
    /// Nothing that is applied from now on arrives there.
    pub(super) fn is_out_of_reach(&self) -> bool {
        self.is_lost || self.link.is_broken()
    }
}

/// A partition, as far as this server is concerned.
#[derive(Default)]
pub(super) struct Post {
    pub(super) role: Role,
    /// The number of the last map that was carried out for it.
    pub(super) map: u64,
    /// Since which map its owner, whoever that is, has owned it: what one before it sends is worth nothing.
    pub(super) owned_since: u64,
    /// Which beginning of the partition is here.
    pub(super) origin: u64,
    /// The number of the last change.
    pub(super) number: u64,
    /// Since when it takes nothing, because it is about to be another's.
    pub(super) frozen_since: Option<Instant>,
    /// The last copy that could not be made: the master has heard so, and will ask for another.
    pub(super) failed_copy: u64,
    /// It is being read from a checkpoint, and is not here yet.
    pub(super) is_beginning: bool,
    pub(super) followers: Vec<Follower>,
}

impl Post {
    /// Whether it may be changed by clients.
    pub(super) fn is_open(&self) -> bool {
        self.role == Role::Owner && self.frozen_since.is_none()
    }
}

/// The posts of all partitions.
pub(super) struct Posts(Vec<Mutex<Post>>);

impl Default for Posts {
    fn default() -> Self {
        Self(PartitionId::all().map(|_| Mutex::default()).collect())
    }
}

impl Posts {
    pub(super) fn lock(&self, partition: PartitionId) -> MutexGuard<'_, Post> {
        self.0[partition.index()].lock()
    }
}
