//! Decides whether the forming round is complete, and if not, what it waits for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;

use super::ranks::{self, Candidate};
use super::{Cause, Fact, MemberId, MemberState, Rendezvous};

/// The decision about the forming round.
enum RoundDecision {
    /// No round is forming.
    NoRound,
    /// The round waits. `enough` if the nodes that have joined could form a world.
    Wait {
        cause: Cause,
        enough: bool,
    },
    Complete {
        size: u32,
        cause: Cause,
    },
}

impl Rendezvous {
    /// The status of the run with its cause: what a forming round waits for, or that the world is running.
    pub fn status(&self) -> Cause {
        if let Some(closed) = &self.closed {
            return closed.clone();
        }
        match self.decide_round() {
            RoundDecision::NoRound => match &self.world {
                Some(_) if self.restart_cause().is_some() => {
                    self.restart_cause().unwrap_or_else(|| self.waiting_for_members())
                }
                Some(world) => {
                    let (size, round) = (world.members.len(), world.round);
                    Cause::new(Reason::WorldStands, format!("{size} nodes train in round {round}"))
                }
                None => Cause::new(Reason::WaitingForMinimum, format!("0 of {} nodes have joined", self.settings.min)),
            },
            RoundDecision::Wait { cause, .. } | RoundDecision::Complete { cause, .. } => cause,
        }
    }

    pub(super) fn complete_if_due(&mut self, facts: &mut Vec<Fact>) {
        if self.closed.is_some() {
            return;
        }
        match self.decide_round() {
            RoundDecision::NoRound => self.enough_since = None,
            RoundDecision::Wait { enough: false, .. } => self.enough_since = None,
            RoundDecision::Wait { enough: true, .. } => {
                self.enough_since.get_or_insert(self.clock.now());
            }
            RoundDecision::Complete { size, cause } => self.complete(size, cause, facts),
        }
    }

    /// Whether live members of the last world have yet to join before the round can complete.
    pub(super) fn awaits_survivors(&self) -> bool {
        self.survivors > 0 && self.census.world + self.census.away > 0
    }

    /// How many members of the last world have joined again. Members that are away may not be of the last world, so the
    /// result is a lower bound.
    fn survivors_here(&self) -> u32 {
        self.survivors.saturating_sub(self.census.world + self.census.away)
    }

    /// How many nodes are expected or announced and have not joined.
    pub(super) fn missing_nodes(&self) -> u32 {
        let here = self.census.world + self.census.joined + self.census.standby + self.census.away;
        let expected = self.expected.unwrap_or(0).min(self.settings.max).saturating_sub(here);
        expected.max(self.announced)
    }

    fn decide_round(&self) -> RoundDecision {
        let census = &self.census;
        let world_is_empty = census.world + census.away == 0;
        if census.joined == 0 && !(world_is_empty && census.standby > 0) {
            return RoundDecision::NoRound;
        }
        let here = census.joined + census.standby;
        let Some(size) = self.settings.world_of(here.min(self.target_size())) else {
            return RoundDecision::Wait { cause: self.why_too_few(here), enough: false };
        };
        if let Some(expected) = self.expected
            && census.joined >= expected
            && (!self.awaits_survivors() || self.survivors_here() >= expected)
            && self.settings.world_of(expected).is_some()
        {
            let cause = Cause::new(Reason::ExpectedReached, format!("all {expected} expected nodes have joined"));
            return RoundDecision::Complete { size, cause };
        }
        if self.awaits_survivors() { self.decide_with_survivors(size) } else { self.decide_among_joined(size) }
    }

    /// Some members of the last world are alive and have not joined yet.
    fn decide_with_survivors(&self, size: u32) -> RoundDecision {
        let missing = self.census.world + self.census.away;
        if self.waited_for(self.settings.straggler_limit) {
            let limit = self.settings.straggler_limit;
            let cause = format!("{missing} nodes are alive but did not join within {limit:?}");
            return RoundDecision::Complete { size, cause: Cause::new(Reason::StragglerLeftOut, cause) };
        }
        RoundDecision::Wait { cause: self.waiting_for_members(), enough: true }
    }

    fn why_too_few(&self, here: u32) -> Cause {
        if self.awaits_survivors() {
            return self.waiting_for_members();
        }
        Cause::new(Reason::WaitingForMinimum, format!("{here} of at least {} nodes have joined", self.settings.min))
    }

    fn waiting_for_members(&self) -> Cause {
        let missing = self.census.world + self.census.away;
        let detail = format!("{missing} nodes of the last world are alive and have not joined again");
        Cause::new(Reason::WaitingForMembers, detail)
    }

    /// All live members have joined; more nodes may come.
    fn decide_among_joined(&self, size: u32) -> RoundDecision {
        let maximum = self.settings.world_of(self.target_size());
        if Some(size) == maximum {
            let cause = format!("{size} nodes have joined, which is the maximum");
            return RoundDecision::Complete { size, cause: Cause::new(Reason::MaximumReached, cause) };
        }
        let first = self.survivors == 0;
        let unknown = first && self.expected.is_none();
        // After the first world a round waits for a replacement only once it is announced. Training goes on meanwhile.
        let missing = if first { self.missing_nodes() } else { self.announced };
        if !unknown && missing == 0 {
            let cause = format!("all {size} nodes that are alive have joined");
            return RoundDecision::Complete { size, cause: Cause::new(Reason::EveryoneJoined, cause) };
        }
        if self.waited_for(self.settings.last_call) {
            let cause = format!("{size} nodes have joined and the last call of {:?} is over", self.settings.last_call);
            return RoundDecision::Complete { size, cause: Cause::new(Reason::LastCallOver, cause) };
        }
        let cause = match missing {
            0 => format!("{size} nodes have joined; others may come during the last call"),
            missing => format!("{size} nodes have joined; {missing} more are to come"),
        };
        RoundDecision::Wait { cause: Cause::new(Reason::WaitingForExpected, cause), enough: true }
    }

    fn waited_for(&self, limit: Duration) -> bool {
        self.enough_since.is_some_and(|since| self.clock.now().saturating_sub(since) >= limit)
    }

    fn complete(&mut self, size: u32, cause: Cause, facts: &mut Vec<Fact>) {
        let mut failures = self.program_failures;
        let mut trigger = self.trigger.clone();
        // A straggler does not excuse the program. A node that is no longer expected is no failure.
        let is_complete_without_others =
            self.census.world + self.census.away == 0 || cause.reason == Reason::StragglerLeftOut;
        if trigger.is_none() && self.world.is_some() && is_complete_without_others {
            failures += 1;
            let limit = self.settings.max_restarts;
            if failures > limit {
                let detail = format!("the program failed {failures} times, {limit} restarts are allowed");
                let cause = Cause::new(Reason::RestartsExhausted, detail);
                return self.decide(Fact::Closed { cause }, facts);
            }
            let detail = format!("no node was lost or joined; failure {failures} of {limit} that are retried");
            trigger = Some(Cause::new(Reason::ProgramFailed, detail));
        }
        self.drop_stragglers(facts);
        let trigger = trigger.or_else(|| self.trigger.clone());
        let members = ranks::assign(self.candidates(), size as usize);
        let round = self.next_round();
        let trigger = trigger.filter(|_| self.world.is_some());
        self.decide(Fact::Completed { round, members, cause, trigger, program_failures: failures }, facts);
    }

    /// Drops live members that have not joined. When they join later, they join as newcomers.
    fn drop_stragglers(&mut self, facts: &mut Vec<Fact>) {
        let stragglers: Vec<MemberId> = self
            .members()
            .filter(|(_, state)| matches!(state, MemberState::InWorld | MemberState::Away))
            .map(|(id, _)| id)
            .collect();
        for id in stragglers {
            let cause = Cause::new(Reason::StragglerLeftOut, "the next round completed without it");
            self.decide(Fact::Dropped { id, cause }, facts);
        }
    }

    fn candidates(&self) -> Vec<Candidate> {
        let last_ranks: HashMap<&MemberId, u32> =
            self.world.iter().flat_map(|world| world.members.iter().zip(0..)).collect();
        self.members
            .iter()
            .map(|(name, (incarnation, member))| {
                let id = MemberId::new(Arc::clone(name), *incarnation);
                let last_rank = last_ranks.get(&id).copied().filter(|_| member.survivor);
                let (survives, standby) = (member.processes.survive, member.state == MemberState::Standby);
                Candidate { id, last_rank, survives, standby, since: member.since }
            })
            .collect()
    }
}
