//! Making copies: the owner's side.
//!
//! A copy is the partition as it was when copying began, sent piece by piece while training goes on; what is applied
//! meanwhile follows on the same link. Copies on one link take turns, and rest between them while training goes on. When
//! the other end has all of it, nobody is answered any more before the copy has the same, and the master hears that it is
//! whole. When the master asks, the partition is frozen.
//!
//! What a hand-over rests on: the master hears that a copy is the same, or that the partition is frozen, only when *every*
//! follower has all that was applied ([`Server::tell_when_same`]). So whoever takes over finds the other copy at the same
//! change as itself, and goes on numbering from there.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::PsEpoch;
use flexor_wire::master::v1 as master;
use flexor_wire::ps::v1 as wire;
use tokio::time::Instant;

use super::links::{Link, Wait};
use super::numbers::{CopyNumber, Turn};
use super::post::{Follower, Post, Standing};
use super::{Server, ServerName};
use crate::hosted::Hosted;
use crate::pace::Pace;
use crate::partition::PartitionCopy;
use crate::placement::PartitionId;
use crate::snapshot::Budget;

/// What training may change of a partition while it is copied, in bytes put aside: over it the copy begins again.
const BUDGET: usize = 256 << 20;
/// How many bytes are sent in a turn. What is forwarded to the copy meanwhile waits behind them.
const TURN: usize = 512 << 10;
/// A turn that was long for want of a network or a processor makes for no longer rest.
const LONGEST_REST: Duration = Duration::from_millis(10);

impl Server {
    /// Begins a copy, with the post in hand.
    pub(super) fn begin_copy(&self, hosted: &Arc<Hosted>, id: PartitionId, post: &mut Post, order: &master::CopyOrder) {
        let Some(to) = &order.to else { return };
        let number = CopyNumber(order.number);
        let link = self.link(to);
        let snapshot = hosted.next_snapshot();
        let begun = hosted.with(id, |partition| partition.begin_copy(snapshot, Budget::new(BUDGET)));
        let Ok(made) = begun else {
            // It is still being read from a checkpoint.
            return self.fail_copy(id, post, number, "the partition is not here yet");
        };
        let server = ServerName::of(to);
        let (copy, standing) = (Some(number), Standing::Arriving);
        post.followers.push(Follower { server, link: link.clone(), copy, order: Some(number), standing });
        if link.is_broken() {
            // It broke before this copy was known to be on it.
            let mut lost = Unreachable::default();
            self.lose_copies(id, post, &link, "the other end is out of reach", &mut lost);
            return self.report_unreachable(lost);
        }
        let sending =
            Sending { server: self.clone(), hosted: hosted.clone(), link, id, number, turn: post.turn, map: post.map };
        tokio::spawn(sending.run(made));
    }

    /// The other end has everything: from now on it is waited for, and when it has all that was sent so far the master
    /// hears of it.
    pub(super) fn copy_is_whole(&self, link: &Arc<Link>, whole: &wire::CopyWhole) {
        let Some(id) = PartitionId::of_number(whole.partition) else { return };
        let mut post = self.0.posts.lock(id);
        let mut ours = post.followers.iter_mut().filter(|one| Arc::ptr_eq(&one.link, link));
        let number = CopyNumber(whole.copy);
        let Some(follower) = ours.find(|one| one.copy == Some(number)) else { return };
        if follower.standing == Standing::Arriving {
            follower.standing = Standing::Whole;
        }
        self.tell_when_same(id, &post, number, master::copy_report::State::Synced);
    }

    /// Tells the master how far a copy is, once it and every other one have all that was applied so far: who takes a
    /// partition over could not bring the others what only its old owner had sent them.
    pub(super) fn tell_when_same(
        &self,
        id: PartitionId,
        post: &Post,
        number: CopyNumber,
        state: master::copy_report::State,
    ) {
        let whole = post.followers.iter().filter(|follower| follower.is_whole());
        let links: Vec<(Arc<Link>, u64)> = whole.map(|one| (one.link.clone(), one.link.last())).collect();
        let server = self.clone();
        tokio::spawn(async move {
            let is_wanted = || server.0.posts.lock(id).followers.iter().any(|one| one.order == Some(number));
            for (link, last) in links {
                link.reached(last, || if is_wanted() { server.waits_for(id, &link) } else { Wait::Over }).await;
            }
            if is_wanted() {
                server.report_copy(id, number, state, String::new());
            }
        });
    }

    /// The other end does not take a copy.
    pub(super) fn copy_is_refused(&self, link: &Arc<Link>, refused: &wire::CopyRefused) {
        let Some(id) = PartitionId::of_number(refused.partition) else { return };
        let mut post = self.0.posts.lock(id);
        let copy = CopyNumber(refused.copy);
        post.dismiss(|one| one.copy != Some(copy) || !Arc::ptr_eq(&one.link, link));
        self.fail_copy(id, &mut post, copy, &refused.detail);
    }

    /// A copy cannot be made: the master hears so, and the same order does not begin it again.
    fn fail_copy(&self, id: PartitionId, post: &mut Post, number: CopyNumber, why: &str) {
        post.failed_copy = post.failed_copy.max(number);
        self.report_copy(id, number, master::copy_report::State::Failed, why.to_owned());
    }

    /// Gives up copies on their way that training changes faster than a link carries; the master has them begun again.
    pub(super) fn give_up_flooded(&self, id: PartitionId, post: &mut Post) {
        let is_flooded = |one: &Follower| one.standing == Standing::Arriving && one.link.is_full();
        if !post.followers.iter().any(is_flooded) {
            return;
        }
        for follower in post.dismiss(|one| !is_flooded(one)) {
            if let Some(copy) = follower.copy {
                follower.link.drop_copy(id, copy);
                self.fail_copy(id, post, copy, "training changes more than can be sent");
            }
        }
    }

    /// The other end has heard that this server does not own partitions any more, and has left out what it was sent for
    /// them: the master says whether that is so.
    pub(super) fn copies_missed(&self, link: &Arc<Link>, partitions: &[u32]) {
        let mut lost = Unreachable::default();
        for id in partitions.iter().copied().filter_map(PartitionId::of_number) {
            let mut post = self.0.posts.lock(id);
            for follower in post.followers.iter_mut().filter(|one| Arc::ptr_eq(&one.link, link) && one.is_whole()) {
                follower.standing = Standing::Missed;
            }
            self.lose_copies(id, &mut post, link, "the other end has heard of another owner", &mut lost);
        }
        self.report_unreachable(lost);
    }

    /// Copies over a link that broke are out of reach: the master decides what becomes of them.
    pub(super) fn report_out_of_reach(&self, link: &Arc<Link>, why: &str) {
        let mut lost = Unreachable::default();
        for id in PartitionId::all() {
            let mut post = self.0.posts.lock(id);
            self.lose_copies(id, &mut post, link, why, &mut lost);
        }
        self.report_unreachable(lost);
        link.stir();
    }

    /// The copies of one partition over a link that broke: those on their way have failed, and whole ones are added to
    /// what the master is to hear of.
    pub(super) fn lose_copies(
        &self,
        id: PartitionId,
        post: &mut Post,
        link: &Arc<Link>,
        why: &str,
        unreachable: &mut Unreachable,
    ) {
        let is_lost = |one: &&Follower| Arc::ptr_eq(&one.link, link);
        for lost in post.followers.iter().filter(is_lost).filter(|one| one.is_whole()) {
            unreachable.0.entry(lost.server.clone()).or_default().push(id.number());
        }
        let orders: Vec<CopyNumber> = post.followers.iter().filter(is_lost).filter_map(|one| one.order).collect();
        orders.into_iter().for_each(|number| self.fail_copy(id, post, number, why));
        // One that is whole may be what the map calls the backup: it stays until the master says otherwise, and nobody is
        // answered before.
        post.followers.retain(|one| one.is_whole() || !Arc::ptr_eq(&one.link, link));
    }

    /// Tells the master of copies that are out of reach, once for each server.
    pub(super) fn report_unreachable(&self, Unreachable(lost): Unreachable) {
        for (ServerName { name, incarnation }, partitions) in lost {
            let missing = master::CopyUnreachable { partitions, server: Some(master::Node { name, incarnation }) };
            self.report(master::from_server::Message::Unreachable(missing));
        }
    }

    fn report_copy(&self, id: PartitionId, number: CopyNumber, state: master::copy_report::State, detail: String) {
        let report = master::CopyReport { partition: id.number(), number: number.0, state: state.into(), detail };
        self.report(master::from_server::Message::Copy(report));
    }
}

/// Partitions whose copies have everything and are out of reach, by who keeps them.
#[derive(Default)]
pub(super) struct Unreachable(BTreeMap<ServerName, Vec<u32>>);

/// A copy on its way.
struct Sending {
    server: Server,
    hosted: Arc<Hosted>,
    link: Arc<Link>,
    id: PartitionId,
    number: CopyNumber,
    /// The last change that is in it.
    turn: Turn,
    /// The map by which this server owns it.
    map: PsEpoch,
}

impl Sending {
    async fn run(self, mut copy: PartitionCopy) {
        let sent = self.send(&mut copy).await;
        let _ = self.hosted.with(self.id, |partition| partition.end_copy(&copy));
        if let Err(why) = sent {
            self.server.report_copy(self.id, self.number, master::copy_report::State::Failed, why);
        }
    }

    async fn send(&self, copy: &mut PartitionCopy) -> Result<(), String> {
        let mut pace = Pace::new(&self.hosted, LONGEST_REST);
        loop {
            let _turn = self.link.turn().await;
            let began = Instant::now();
            let more = self.send_some(copy).await?;
            if more.is_continue() {
                self.server.report_copy(self.id, self.number, master::copy_report::State::Copying, String::new());
            }
            // What the other end does with it is part of the turn.
            self.link.all_taken().await;
            tokio::time::sleep(pace.rest_after(began.elapsed(), &self.hosted)).await;
            if more.is_break() {
                return Ok(());
            }
        }
    }

    /// Sends as much as is sent in a turn, or all that is left.
    async fn send_some(&self, copy: &mut PartitionCopy) -> Result<ControlFlow<()>, String> {
        let mut sent = 0;
        while sent < TURN {
            let is_wanted = |one: &Follower| one.copy == Some(self.number);
            if !self.server.0.posts.lock(self.id).followers.iter().any(is_wanted) {
                return Ok(ControlFlow::Break(()));
            }
            let next = self.hosted.with(self.id, |partition| partition.next_piece(copy));
            let next = next.map_err(|turned| turned.to_string())?.map_err(|lost| lost.to_string())?;
            let last = next.is_none();
            let piece = next.map(|piece| piece.to_bytes()).unwrap_or_default();
            sent += piece.len();
            let piece = wire::CopyPiece {
                partition: self.id.number(),
                copy: self.number.0,
                origin: self.turn.origin.0,
                number: self.turn.change,
                map: self.map.0,
                piece: piece.into(),
                last,
            };
            if !self.link.piece(piece).await {
                return Err("the other end is out of reach".to_owned());
            }
            if last {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
