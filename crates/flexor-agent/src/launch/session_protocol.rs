//! Which request a session sends next: one at a time, the next when the last one is answered.
//!
//! Reports come first, in their order, each until the master has recorded it. Then comes a request for the desired
//! membership, whenever the master's view of the node differs from it. Last comes the opt-in of processes that survive
//! changes. No input or output happens here: [`super::session`] has the stream, and the time comes in with every call.

use std::time::Duration;

use flexor_client::Backoff;
use flexor_model::Reason;
use flexor_wire::master::v1 as wire;
use tokio::time::Instant;
use wire::reply::Result as Answer;
use wire::request::Op;
use wire::world::MemberState;

use super::node_state::NodeState;
use super::outbox::{DesiredMembership, Outbox, RESTARTS_WORKERS};

/// A node that waits for a world polls its state this often. The master notifies when a world begins or ends, but not
/// when it drops a waiting node as lost.
const POLL_EVERY: Duration = Duration::from_secs(2);

/// The protocol state of one session.
pub(super) struct SessionProtocol {
    node: wire::Node,
    processes: u32,
    /// The master's latest view of the node.
    world: Option<wire::World>,
    /// The latest request for the desired membership.
    last_request: Option<MembershipRequest>,
    /// The latest round in which the node's processes opted in to survive changes.
    opted_in: Option<u64>,
    /// The request that waits for its answer.
    pending: Option<(u64, RequestKind)>,
    last_id: u64,
    backoff: Backoff,
    /// No request is sent before this: the last one was refused.
    paused_until: Option<Instant>,
    poll_at: Option<Instant>,
}

/// A membership request that was sent. Its answer does not show whether it had an effect; the next world message does.
#[derive(Debug)]
struct MembershipRequest {
    op: Op,
    /// Whether the master has sent a world message since.
    is_reflected: bool,
    /// The request is not repeated before this.
    retry_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Report,
    Membership,
    OptIn,
    Poll,
}

/// What follows from a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplyEffect {
    None,
    /// The node is in this state.
    State(NodeState),
    /// The oldest report is done; with a cause where the master refused it.
    ReportHandled(Option<String>),
    /// The request was refused for this cause and will be repeated.
    Refused(String),
    /// Another process has this node's name.
    Fenced(String),
    /// The master refuses the session.
    SessionRefused(String),
}

impl SessionProtocol {
    pub(super) fn new(node: wire::Node, processes: u32) -> Self {
        Self {
            node,
            processes,
            world: None,
            last_request: None,
            opted_in: None,
            pending: None,
            last_id: 0,
            backoff: Backoff::default(),
            paused_until: None,
            poll_at: None,
        }
    }

    /// The first request: it binds the session to this node, and its answer is the master's view of the node.
    pub(super) fn open(&mut self) -> wire::Request {
        self.request(Op::Poll(wire::Poll::default()))
    }

    /// The next request, if one is due.
    pub(super) fn next_request(&mut self, outbox: &Outbox, now: Instant) -> Option<wire::Request> {
        if self.world.is_none() || self.pending.is_some() || self.paused_until.is_some_and(|until| now < until) {
            return None;
        }
        self.paused_until = None;
        let (kind, op) = if let Some(report) = outbox.reports.front() {
            (RequestKind::Report, report.clone())
        } else if let Some(op) = self.membership_request(outbox.desired) {
            let is_same = |last: &&MembershipRequest| last.op == op;
            let retry_at = self.last_request.as_ref().filter(is_same).and_then(|last| last.retry_at);
            if retry_at.is_some_and(|at| now < at) {
                return None;
            }
            self.last_request = Some(MembershipRequest { op: op.clone(), is_reflected: false, retry_at });
            (RequestKind::Membership, op)
        } else if let Some(round) = self.round_to_opt_in(outbox) {
            self.opted_in = Some(round);
            (RequestKind::OptIn, Op::OptIn(wire::OptIn {}))
        } else {
            if self.last_request.as_ref().is_none_or(|last| last.is_reflected) {
                self.backoff.reset();
            }
            if !self.take_due_poll(outbox.desired, now) {
                return None;
            }
            (RequestKind::Poll, Op::Poll(wire::Poll::default()))
        };
        let request = self.request(op);
        self.pending = Some((request.id, kind));
        Some(request)
    }

    /// The master's latest view of the node.
    pub(super) fn world(&self) -> Option<&wire::World> {
        self.world.as_ref()
    }

    /// Whether the master has received everything.
    pub(super) fn has_delivered(&self, outbox: &Outbox) -> bool {
        let is_idle = self.world.is_some() && self.pending.is_none() && outbox.reports.is_empty();
        is_idle && self.membership_request(outbox.desired).is_none()
    }

    /// When a request may become due although nothing happens.
    pub(super) fn next_wakeup(&self, now: Instant) -> Option<Instant> {
        let retry_at = self.last_request.as_ref().and_then(|last| last.retry_at);
        self.paused_until.into_iter().chain(retry_at).chain(self.poll_at).filter(|at| *at > now).min()
    }

    pub(super) fn handle_reply(&mut self, reply: wire::Reply, now: Instant) -> ReplyEffect {
        let answered = self.pending.filter(|(id, _)| *id == reply.id).map(|(_, kind)| kind);
        if answered.is_some() {
            self.pending = None;
        }
        if let (Some(RequestKind::Membership), Some(last)) = (answered, &mut self.last_request) {
            last.retry_at = Some(now + self.backoff.next_delay());
        }
        match (reply.result, answered) {
            (Some(Answer::World(world)), _)
                if matches!(MemberState::try_from(world.state), Ok(MemberState::Unspecified) | Err(_)) =>
            {
                let state = world.state;
                ReplyEffect::SessionRefused(format!("the master reports a state of this node that is unknown: {state}"))
            }
            (Some(Answer::World(world)), _) => {
                let state = NodeState::of(&world);
                self.world = Some(world);
                if let Some(last) = &mut self.last_request {
                    last.is_reflected = true;
                }
                ReplyEffect::State(state)
            }
            (Some(Answer::Refusal(refusal)), _) => self.handle_refusal(&refusal, answered, now),
            (Some(_) | None, Some(RequestKind::Report)) => {
                self.backoff.reset();
                ReplyEffect::ReportHandled(None)
            }
            (Some(_) | None, Some(RequestKind::Membership | RequestKind::OptIn | RequestKind::Poll) | None) => {
                ReplyEffect::None
            }
        }
    }

    fn handle_refusal(&mut self, refusal: &wire::Refusal, answered: Option<RequestKind>, now: Instant) -> ReplyEffect {
        let cause = format!("{}: {}", refusal.reason, refusal.detail);
        let is = |reason: Reason| refusal.reason == reason.as_str();
        match answered {
            _ if is(Reason::NodeFenced) => ReplyEffect::Fenced(cause),
            None | Some(RequestKind::Poll) => ReplyEffect::SessionRefused(cause),
            Some(RequestKind::Report) if !is(Reason::JournalFull) => ReplyEffect::ReportHandled(Some(cause)),
            Some(RequestKind::Report | RequestKind::Membership | RequestKind::OptIn) => {
                self.paused_until = Some(now + self.backoff.next_delay());
                self.opted_in = self.opted_in.filter(|_| answered != Some(RequestKind::OptIn));
                self.last_request = self.last_request.take().filter(|_| answered != Some(RequestKind::Membership));
                ReplyEffect::Refused(cause)
            }
        }
    }

    /// The round in which the node's processes have yet to opt in. They do so in each round, because a master forgets the
    /// opt-in of a node that leaves.
    fn round_to_opt_in(&self, outbox: &Outbox) -> Option<u64> {
        let is_candidate = |world: &&wire::World| outbox.survives_changes && world.state() == MemberState::InWorld;
        let world = self.world.as_ref().filter(is_candidate)?;
        (self.opted_in != Some(world.round)).then_some(world.round)
    }

    /// Whether a poll is due for a node that waits for a world. Schedules the next one.
    fn take_due_poll(&mut self, desired: DesiredMembership, now: Instant) -> bool {
        let wants_world = matches!(desired, DesiredMembership::NextWorld { .. });
        let is_outside = |world: &wire::World| world.closed.is_empty() && world.state() != MemberState::InWorld;
        let waits = wants_world && self.world.as_ref().is_some_and(is_outside);
        // The node has departed and joins as soon as the master reports it as outside.
        let has_departed = wants_world && self.last_request.as_ref().is_some_and(|last| !last.is_reflected);
        let is_due = has_departed || self.poll_at.is_some_and(|at| now >= at);
        self.poll_at = (waits || has_departed).then(|| self.poll_at.filter(|_| !is_due).unwrap_or(now + POLL_EVERY));
        is_due && (waits || has_departed)
    }

    /// The request that leads to the desired membership; none where the node has it, or has requested it.
    fn membership_request(&self, desired: DesiredMembership) -> Option<Op> {
        let world = self.world.as_ref()?;
        let is_open = world.closed.is_empty();
        let depart = |detail: &str| Op::Depart(wire::Depart { detail: detail.to_owned() });
        let op = match desired {
            DesiredMembership::Current => return None,
            DesiredMembership::NextWorld { .. } | DesiredMembership::Finished { .. } if !is_open => return None,
            DesiredMembership::NextWorld { after, survives, stood_aside } => {
                let join = Op::Join(wire::Join { processes: self.processes, survives, after });
                match world.state() {
                    MemberState::InWorld if after.is_none_or(|after| world.round > after) => return None,
                    // Never twice: the first join may have led to a world, and a second join would end that world.
                    MemberState::Joined | MemberState::Standby if !stood_aside || self.has_joined_with(survives) => {
                        return None;
                    }
                    MemberState::InWorld | MemberState::Away | MemberState::Joined | MemberState::Standby
                        if stood_aside =>
                    {
                        depart(RESTARTS_WORKERS)
                    }
                    MemberState::InWorld | MemberState::Away | MemberState::Joined | MemberState::Standby => join,
                    MemberState::Unspecified | MemberState::Outside => join,
                }
            }
            DesiredMembership::Finished { stood_aside } => match world.state() {
                // The world message does not show whether the master knows. One report per session is enough.
                MemberState::InWorld if !stood_aside && self.has_finished() => return None,
                MemberState::InWorld if !stood_aside => Op::Finish(wire::Finish {}),
                MemberState::InWorld | MemberState::Joined | MemberState::Standby | MemberState::Away => {
                    depart(RESTARTS_WORKERS)
                }
                MemberState::Unspecified | MemberState::Outside => return None,
            },
            DesiredMembership::Absent(detail) => match world.state() {
                MemberState::Unspecified | MemberState::Outside => return None,
                MemberState::InWorld | MemberState::Joined | MemberState::Standby | MemberState::Away => depart(detail),
            },
        };
        // A view from before the same request says nothing about its effect.
        Some(op).filter(|op| self.last_request.as_ref().is_none_or(|last| last.is_reflected || last.op != *op))
    }

    /// Whether the latest membership request is a join with (or without) surviving processes.
    fn has_joined_with(&self, survives: bool) -> bool {
        matches!(&self.last_request, Some(MembershipRequest { op: Op::Join(join), .. }) if join.survives == survives)
    }

    /// Whether the latest membership request is that the program has succeeded.
    fn has_finished(&self) -> bool {
        matches!(&self.last_request, Some(MembershipRequest { op: Op::Finish(_), .. }))
    }

    fn request(&mut self, op: Op) -> wire::Request {
        self.last_id += 1;
        wire::Request { id: self.last_id, node: Some(self.node.clone()), op: Some(op) }
    }
}

#[cfg(test)]
mod tests;
