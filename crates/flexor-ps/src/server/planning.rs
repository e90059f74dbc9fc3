//! Carrying out what the master says: the map, and the copies that it wants.
//!
//! A plan is whole: what is not in it is not so any more. Partitions take their places one after the other, each under
//! its lock. Nobody minds, but those who train in steps when all servers go back: they are kept waiting until all
//! partitions have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flexor_model::PsEpoch;
use flexor_wire::master::v1 as master;
use thiserror::Error;
use tokio::time::Instant;

use super::copying::Unreachable;
use super::numbers::{CopyNumber, Origin, Turn};
use super::post::{Follower, Post, Role, Standing};
use super::restoring::Beginnings;
use super::{Server, ServerName};
use crate::checkpoint::CheckpointId;
use crate::hosted::Hosted;
use crate::layout::Layout;
use crate::placement::{PARTITIONS, PartitionId};
use crate::spec::{ModelSpec, SpecError};

/// A plan that cannot be carried out.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The model is none.
    #[error("the master tells of a model that cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// The model cannot be.
    #[error("the master tells of a model that cannot be: {0}")]
    Model(#[from] SpecError),
    /// The map is none.
    #[error("a map has {PARTITIONS} partitions, not {0}")]
    Seats(usize),
}

impl Server {
    /// Carries out a plan. The map of one that is older than what is known changes nothing.
    pub fn plan(&self, plan: &master::ServerPlan) -> Result<(), PlanError> {
        let _one_at_a_time = self.0.planned.lock();
        if plan.released {
            self.0.is_released.store(true, Ordering::Release);
            self.0.changed.notify_waiters();
        }
        let Some(map) = &plan.map else { return Ok(()) };
        if !map.model.is_empty() && self.0.hosted.get().is_none() {
            let spec: ModelSpec = serde_json::from_str(&map.model)?;
            let hosted = Arc::new(Hosted::new(Layout::new(spec)?));
            self.0.hosted.get_or_init(|| hosted);
            self.0.changed.notify_waiters();
        }
        self.look_for_checkpoints(plan);
        if map.epoch == 0 || map.epoch < self.epoch() {
            return Ok(());
        }
        if map.seats.len() != PARTITIONS {
            return Err(PlanError::Seats(map.seats.len()));
        }
        // Without a model there is nothing to keep; the plan comes again with it.
        let Some(hosted) = self.0.hosted.get() else { return Ok(()) };
        let orders: BTreeMap<u32, &master::CopyOrder> =
            plan.copies.iter().map(|order| (order.partition, order)).collect();
        self.begin_steps_again(map.rewound);
        let (mut beginnings, mut lost) = (Beginnings::default(), Unreachable::default());
        for (id, seat) in PartitionId::all().zip(&map.seats) {
            let server = |place: Option<u32>| map.servers.get(place? as usize);
            let (owner, backup) = (server(seat.owner), server(seat.backup));
            let place = Place {
                owner,
                backup,
                origin: Origin(seat.origin),
                checkpoint: seat.checkpoint.map(CheckpointId),
                since: PsEpoch(seat.since),
                map: PsEpoch(map.epoch),
            };
            let frozen_since = self.0.posts.lock(id).frozen_since;
            self.take_place(hosted, id, &place, orders.get(&id.number()).copied(), (&mut beginnings, &mut lost));
            if let Some(since) = frozen_since
                && self.0.posts.lock(id).frozen_since.is_none()
            {
                self.0.longest_freeze_us.fetch_max(since.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
            self.settle_waiting(id);
        }
        self.report_unreachable(lost);
        self.has_begun_again(map.rewound);
        self.begin(hosted, beginnings);
        self.0.epoch.store(map.epoch, Ordering::Release);
        self.take_steps();
        self.0.changed.notify_waiters();
        // What is written is what this server answers for by this map.
        self.follow_saving(hosted, plan, map.rewound);
        Ok(())
    }

    fn take_place(
        &self,
        hosted: &Arc<Hosted>,
        id: PartitionId,
        place: &Place<'_>,
        order: Option<&master::CopyOrder>,
        (beginnings, lost): (&mut Beginnings, &mut Unreachable),
    ) {
        let is_me = |server: Option<&master::Server>| server.is_some_and(|server| ServerName::of(server) == self.0.me);
        let mut post = self.0.posts.lock(id);
        post.owned_since = place.since;
        post.map = place.map;
        let role = match (is_me(place.owner), is_me(place.backup)) {
            (true, _) => Role::Owner,
            (false, true) => Role::Backup,
            (false, false) => Role::Away,
        };
        if role == Role::Away {
            if post.role != Role::Away {
                hosted.remove(id);
                leave(&mut post);
            }
            return;
        }
        let is_here = (hosted.holds(id) || post.is_beginning) && post.turn.origin == place.origin;
        if !is_here {
            hosted.remove(id);
            leave(&mut post);
            post.turn = Turn::beginning(place.origin);
            post.is_beginning = place.checkpoint.is_some();
            if !post.is_beginning {
                hosted.make([id]);
            }
            beginnings.add(id, place.origin, place.checkpoint);
        }
        post.role = role;
        if role == Role::Backup {
            // What it sent before as the owner is sent by another now.
            post.dismiss(|_| false);
            post.frozen_since = None;
            drop(post);
            self.catch_up(hosted, id);
            return;
        }
        self.choose_followers(hosted, id, &mut post, (place, order), lost);
    }

    /// An owner: who follows it, and whether it is frozen.
    fn choose_followers(
        &self,
        hosted: &Arc<Hosted>,
        id: PartitionId,
        post: &mut Post,
        (place, order): (&Place<'_>, Option<&master::CopyOrder>),
        unreachable: &mut Unreachable,
    ) {
        let backup = place.backup.map(ServerName::of);
        let ordered = order.and_then(|order| Some((ServerName::of(order.to.as_ref()?), CopyNumber(order.number))));
        // One that was the backup by an earlier map is ordered anew: it may have heard of a map between that and this one,
        // by which it was not, and keeps nothing any more.
        let go = post.dismiss(|follower| {
            let is_backup = backup.as_ref() == Some(&follower.server) && follower.is_whole();
            let is_ordered =
                ordered.as_ref().is_some_and(|(to, number)| *to == follower.server && follower.order == Some(*number));
            is_backup || is_ordered
        });
        // The master has given these up. One that has become the owner is not told so: it hears it from the master.
        for follower in go {
            if let Some(copy) = follower.copy {
                follower.link.drop_copy(id, copy);
            }
        }
        if let (Some(backup), Some(to)) = (&backup, place.backup)
            && post.followers.iter().all(|one| one.server != *backup)
        {
            // Both have begun with the same, or were the same when this server took over: it has everything.
            let (server, link) = (backup.clone(), self.link(to));
            post.followers.push(Follower { server, link, copy: None, order: None, standing: Standing::Whole });
        }
        match order {
            Some(order) => self.follow_order(hosted, id, post, order),
            None => post.frozen_since = None,
        }
        // The master may not have heard of it: what was said when a session broke is lost.
        let lost = |one: &&Follower| one.is_whole() && one.is_out_of_reach();
        let lost: Vec<_> = post.followers.iter().filter(lost).map(|one| one.link.clone()).collect();
        for link in lost {
            self.lose_copies(id, post, &link, "the other end is out of reach", unreachable);
        }
    }

    /// An owner that is to make a copy: how far it is.
    fn follow_order(&self, hosted: &Arc<Hosted>, id: PartitionId, post: &mut Post, order: &master::CopyOrder) {
        let Some(to) = order.to.as_ref().map(ServerName::of) else { return };
        let number = CopyNumber(order.number);
        match post.followers.iter_mut().find(|one| one.server == to) {
            None if post.failed_copy < number => self.begin_copy(hosted, id, post, order),
            None => {}
            // It has everything already: the master need only hear so.
            Some(follower) if follower.is_whole() && follower.order != Some(number) => {
                follower.order = Some(number);
                self.tell_when_same(id, post, number, master::copy_report::State::Synced);
            }
            Some(_) => {}
        }
        if order.freeze && post.frozen_since.is_none() {
            post.frozen_since = Some(Instant::now());
            if post.followers.iter().any(|one| one.server == to && one.is_whole()) {
                self.tell_when_same(id, post, number, master::copy_report::State::Frozen);
            }
        } else if !order.freeze {
            post.frozen_since = None;
        }
    }
}

/// Who keeps a partition, as the map says.
struct Place<'a> {
    owner: Option<&'a master::Server>,
    backup: Option<&'a master::Server>,
    origin: Origin,
    checkpoint: Option<CheckpointId>,
    since: PsEpoch,
    map: PsEpoch,
}

/// A server that keeps nothing of a partition.
fn leave(post: &mut Post) {
    post.dismiss(|_| false);
    post.role = Role::Away;
    (post.frozen_since, post.is_beginning) = (None, false);
    post.turn = Turn::default();
}
