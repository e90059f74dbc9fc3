//! What a server is for each partition, and who has to have the same before anybody is answered.
//!
//! A post is locked while its partition is changed, so that what is sent to copies has the order in which it was applied,
//! and nothing is applied after the server has heard that it is not the owner any more.

use std::sync::Arc;

use flexor_model::PsEpoch;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::ServerName;
use super::links::Link;
use super::numbers::{CopyNumber, Turn};
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
    pub(super) copy: Option<CopyNumber>,
    /// The last order of the master that was about it: reports carry its number.
    pub(super) order: Option<CopyNumber>,
    pub(super) standing: Standing,
}

/// How far somebody is who gets everything that is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its copy is on its way: nobody waits for it.
    Arriving,
    /// It has everything: nobody is answered before it has the same.
    Whole,
    /// It had everything and has missed something: nobody is answered before the master has said what becomes of it.
    Missed,
}

impl Follower {
    /// Whether it may be what the map calls the backup: then it is not given up before the master says so.
    pub(super) fn is_whole(&self) -> bool {
        match self.standing {
            Standing::Arriving => false,
            Standing::Whole | Standing::Missed => true,
        }
    }

    /// Nothing that is applied from now on arrives there.
    pub(super) fn is_out_of_reach(&self) -> bool {
        self.standing == Standing::Missed || self.link.is_broken()
    }
}

/// A partition, as far as this server is concerned.
#[derive(Default)]
pub(super) struct Post {
    pub(super) role: Role,
    /// The number of the last map that was carried out for it.
    pub(super) map: PsEpoch,
    /// Since which map its owner, whoever that is, has owned it: what one before it sends is worth nothing.
    pub(super) owned_since: PsEpoch,
    /// How far what is here is, and which beginning of the partition it is.
    pub(super) turn: Turn,
    /// Since when it takes nothing, because it is about to be another's.
    pub(super) frozen_since: Option<Instant>,
    /// The last copy that could not be made: the master has heard so, and will ask for another.
    pub(super) failed_copy: CopyNumber,
    /// It is being read from a checkpoint, and is not here yet.
    pub(super) is_beginning: bool,
    pub(super) followers: Vec<Follower>,
}

impl Post {
    /// Whether it may be changed by clients.
    pub(super) fn is_open(&self) -> bool {
        self.role == Role::Owner && self.frozen_since.is_none()
    }

    /// Sends nothing more to those who are not to follow; whoever waits for them need not any more.
    pub(super) fn dismiss(&mut self, stays: impl Fn(&Follower) -> bool) -> Vec<Follower> {
        let (stay, go): (Vec<Follower>, Vec<Follower>) =
            std::mem::take(&mut self.followers).into_iter().partition(stays);
        self.followers = stay;
        go.iter().for_each(|follower| follower.link.stir());
        go
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
