//! What is said in a session, and when: one thing at a time, the next when the last is answered.
//!
//! Reports come first, in their order, each until the master has taken it; then what the node wants, whenever the master
//! says that the node does not have it; then that its processes outlive the world. No input or output here:
//! [`super::session`] has the stream, and the time comes in with every call.

use std::time::Duration;

use flexor_model::Reason;
use flexor_store::sidecar::Backoff;
use flexor_wire::master::v1 as wire;
use tokio::time::Instant;
use wire::reply::Result as Answer;
use wire::request::Op;
use wire::world::MemberState as Said;

use super::errands::{ASIDE, Errands, Wanted};
use super::place::Place;

/// A node that waits for a world asks this often where it stands: the master tells by itself when a world begins or ends,
/// not when somebody who waits is taken for lost.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The conversation of one session.
pub(super) struct Dialogue {
    node: wire::Node,
    processes: u32,
    /// Where the master last said that the node stands.
    stands: Option<wire::World>,
    /// What was last said to get what is wanted.
    last_wish: Option<LastWish>,
    /// The last round of which it was said that the node's processes outlive changes.
    opted_in: Option<u64>,
    /// What waits for an answer.
    awaits: Option<(u64, Errand)>,
    last_id: u64,
    pauses: Backoff,
    /// Nothing is said before this: the last was refused.
    quiet_until: Option<Instant>,
    /// When to ask where the node stands.
    look_at: Option<Instant>,
}

/// Something that was said. The answer does not show whether it helped; what the master says next does.
#[derive(Debug)]
struct LastWish {
    op: Op,
    /// Whether the master has said since then where the node stands.
    is_seen: bool,
    /// It is not said again before this.
    again_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Errand {
    Report,
    Wish,
    OptIn,
    Look,
}

/// What follows from a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing.
    Nothing,
    /// The node stands here.
    Stands(Place),
    /// The first report is done with; where the master would not have it, why.
    Report(Option<String>),
    /// What was said will be said again, because it was refused for this reason.
    Refused(String),
    /// Somebody else is this node.
    Fenced(String),
    /// The master does not want this session.
    Unwelcome(String),
}

impl Dialogue {
    /// Nothing was said yet.
    pub(super) fn new(node: wire::Node, processes: u32) -> Self {
        Self {
            node,
            processes,
            stands: None,
            last_wish: None,
            opted_in: None,
            awaits: None,
            last_id: 0,
            pauses: Backoff::default(),
            quiet_until: None,
            look_at: None,
        }
    }

    /// The first request: it makes the session this node's, and its answer says where the node stands.
    pub(super) fn open(&mut self) -> wire::Request {
        self.request(Op::Poll(wire::Poll::default()))
    }

    /// The next request, if it is time for one.
    pub(super) fn next(&mut self, errands: &Errands, now: Instant) -> Option<wire::Request> {
        if self.stands.is_none() || self.awaits.is_some() || self.quiet_until.is_some_and(|until| now < until) {
            return None;
        }
        self.quiet_until = None;
        let (errand, op) = if let Some(report) = errands.reports.front() {
            (Errand::Report, report.clone())
        } else if let Some(wish) = self.wish(errands.wanted) {
            let is_last = |last: &&LastWish| last.op == wish;
            let again_at = self.last_wish.as_ref().filter(is_last).and_then(|last| last.again_at);
            if again_at.is_some_and(|at| now < at) {
                return None;
            }
            self.last_wish = Some(LastWish { op: wish.clone(), is_seen: false, again_at });
            (Errand::Wish, wish)
        } else if let Some(round) = self.outlives(errands) {
            self.opted_in = Some(round);
            (Errand::OptIn, Op::OptIn(wire::OptIn {}))
        } else {
            if self.last_wish.as_ref().is_none_or(|last| last.is_seen) {
                self.pauses.reset();
            }
            self.look(errands.wanted, now)?;
            (Errand::Look, Op::Poll(wire::Poll::default()))
        };
        let request = self.request(op);
        self.awaits = Some((request.id, errand));
        Some(request)
    }

    /// Where the master last said that the node stands.
    pub(super) fn stands(&self) -> Option<&wire::World> {
        self.stands.as_ref()
    }

    /// Whether the master has heard everything.
    pub(super) fn is_settled(&self, errands: &Errands) -> bool {
        let heard = self.stands.is_some() && self.awaits.is_none() && errands.reports.is_empty();
        heard && self.wish(errands.wanted).is_none()
    }

    /// When there may be something to say without anything having happened.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let again_at = self.last_wish.as_ref().and_then(|last| last.again_at);
        self.quiet_until.into_iter().chain(again_at).chain(self.look_at).filter(|at| *at > now).min()
    }

    /// Takes in a reply.
    pub(super) fn hear(&mut self, reply: wire::Reply, now: Instant) -> Heard {
        let answered = self.awaits.filter(|(id, _)| *id == reply.id).map(|(_, errand)| errand);
        if answered.is_some() {
            self.awaits = None;
        }
        if let (Some(Errand::Wish), Some(last)) = (answered, &mut self.last_wish) {
            last.again_at = Some(now + self.pauses.pause());
        }
        match (reply.result, answered) {
            (Some(Answer::World(world)), _) => {
                let place = Place::of(&world);
                self.stands = Some(world);
                if let Some(last) = &mut self.last_wish {
                    last.is_seen = true;
                }
                Heard::Stands(place)
            }
            (Some(Answer::Refusal(refusal)), _) => self.take_refusal(&refusal, answered, now),
            (Some(_) | None, Some(Errand::Report)) => {
                self.pauses.reset();
                Heard::Report(None)
            }
            (Some(_) | None, Some(Errand::Wish | Errand::OptIn | Errand::Look) | None) => Heard::Nothing,
        }
    }

    fn take_refusal(&mut self, refusal: &wire::Refusal, answered: Option<Errand>, now: Instant) -> Heard {
        let because = format!("{}: {}", refusal.reason, refusal.detail);
        let is = |reason: Reason| refusal.reason == reason.as_str();
        match answered {
            _ if is(Reason::NodeFenced) => Heard::Fenced(because),
            None | Some(Errand::Look) => Heard::Unwelcome(because),
            Some(Errand::Report) if !is(Reason::JournalFull) => Heard::Report(Some(because)),
            Some(Errand::Report | Errand::Wish | Errand::OptIn) => {
                self.quiet_until = Some(now + self.pauses.pause());
                self.opted_in = self.opted_in.filter(|_| answered != Some(Errand::OptIn));
                self.last_wish = self.last_wish.take().filter(|_| answered != Some(Errand::Wish));
                Heard::Refused(because)
            }
        }
    }

    /// The round of which to say that the node's processes outlive it: each, because a master forgets who leaves.
    fn outlives(&self, errands: &Errands) -> Option<u64> {
        let world = self.stands.as_ref().filter(|world| errands.outlives && world.state() == Said::InWorld)?;
        (self.opted_in != Some(world.round)).then_some(world.round)
    }

    /// Whether it is time to ask where a node stands that waits for a world.
    fn look(&mut self, wanted: Wanted, now: Instant) -> Option<()> {
        let waits = matches!(wanted, Wanted::World { .. })
            && self.stands.as_ref().is_some_and(|world| world.closed.is_empty() && world.state() != Said::InWorld);
        // It has left and is to join, as soon as the master says that it is outside.
        let is_unseen = self.last_wish.as_ref().is_some_and(|last| !last.is_seen);
        let has_left = matches!(wanted, Wanted::World { .. }) && is_unseen;
        let due = has_left || self.look_at.is_some_and(|at| now >= at);
        self.look_at = (waits || has_left).then(|| self.look_at.filter(|_| !due).unwrap_or(now + LOOK_EVERY));
        (due && (waits || has_left)).then_some(())
    }

    /// What to say for the node to get what it wants; nothing where it has it, or will as far as is known.
    fn wish(&self, wanted: Wanted) -> Option<Op> {
        let world = self.stands.as_ref()?;
        let is_open = world.closed.is_empty();
        let depart = |detail: &str| Op::Depart(wire::Depart { detail: detail.to_owned() });
        let op = match wanted {
            Wanted::Nothing => return None,
            Wanted::World { .. } | Wanted::Rest { .. } if !is_open => return None,
            Wanted::World { after, survives, apart } => {
                let join = Op::Join(wire::Join { processes: self.processes, survives, after });
                match world.state() {
                    Said::InWorld if after.is_none_or(|after| world.round > after) => return None,
                    // Never twice: a world may have come of the first, and who joins again in a world ends it.
                    Said::Joined | Said::Standby if !apart || self.has_joined_with(survives) => return None,
                    Said::InWorld | Said::Away | Said::Joined | Said::Standby if apart => depart(ASIDE),
                    Said::InWorld | Said::Away | Said::Joined | Said::Standby => join,
                    Said::Unspecified | Said::Outside => join,
                }
            }
            Wanted::Rest { apart } => match world.state() {
                // Where the node stands does not show whether the master knows; once is enough for each.
                Said::InWorld if !apart && self.has_finished() => return None,
                Said::InWorld if !apart => Op::Finish(wire::Finish {}),
                Said::InWorld | Said::Joined | Said::Standby | Said::Away => depart(ASIDE),
                Said::Unspecified | Said::Outside => return None,
            },
            Wanted::Absence(detail) => match world.state() {
                Said::Unspecified | Said::Outside => return None,
                Said::InWorld | Said::Joined | Said::Standby | Said::Away => depart(detail),
            },
        };
        // Where the node stood before this was said tells nothing.
        Some(op).filter(|op| self.last_wish.as_ref().is_none_or(|last| last.is_seen || last.op != *op))
    }

    /// Whether the last that was said is that it joins, with processes that live on or without.
    fn has_joined_with(&self, survives: bool) -> bool {
        matches!(&self.last_wish, Some(LastWish { op: Op::Join(join), .. }) if join.survives == survives)
    }

    /// Whether the last that was said is that the program has ended well.
    fn has_finished(&self) -> bool {
        matches!(&self.last_wish, Some(LastWish { op: Op::Finish(_), .. }))
    }

    fn request(&mut self, op: Op) -> wire::Request {
        self.last_id += 1;
        wire::Request { id: self.last_id, node: Some(self.node.clone()), op: Some(op) }
    }
}

#[cfg(test)]
mod tests;
