//! Whether the round that is forming is complete, and if not, what it waits for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;

use super::ranks::{self, Candidate};
use super::{Cause, Fact, MemberId, Place, Rendezvous};

/// What is to be done about the forming round.
enum Verdict {
    /// Nothing asks for a round.
    Stands,
    /// Not yet; `enough` if only time or others are missing, not nodes.
    Wait { cause: Cause, enough: bool },
    /// Now, with this many.
    Complete { size: u32, cause: Cause },
}

impl Rendezvous {
    /// Why things are as they are: what a forming round waits for, or that the world stands.
    pub fn standing(&self) -> Cause {
        if let Some(closed) = &self.closed {
            return closed.clone();
        }
        match self.judge() {
            Verdict::Stands => match &self.world {
                Some(_) if self.restart_wanted().is_some() => {
                    self.restart_wanted().unwrap_or_else(|| self.waiting_for_members())
                }
                Some(world) => {
                    let (size, round) = (world.members.len(), world.round);
                    Cause::new(Reason::WorldStands, format!("{size} nodes train in round {round}"))
                }
                None => Cause::new(Reason::WaitingForMinimum, format!("0 of {} nodes are here", self.settings.min)),
            },
            Verdict::Wait { cause, .. } | Verdict::Complete { cause, .. } => cause,
        }
    }

    pub(super) fn complete_if_due(&mut self, facts: &mut Vec<Fact>) {
        if self.closed.is_some() {
            return;
        }
        match self.judge() {
            Verdict::Stands => self.enough_since = None,
            Verdict::Wait { enough: false, .. } => self.enough_since = None,
            Verdict::Wait { enough: true, .. } => {
                self.enough_since.get_or_insert(self.clock.now());
            }
            Verdict::Complete { size, cause } => self.complete(size, cause, facts),
        }
    }

    /// Whether live members of the last world have to come before the round can complete.
    pub(super) fn awaits_survivors(&self) -> bool {
        self.survivors > 0 && self.census.world + self.census.away > 0
    }

    /// How many of the last world have joined again. Others that are away may be among those it is compared with, which
    /// makes it at most too small.
    fn survivors_here(&self) -> u32 {
        self.survivors.saturating_sub(self.census.world + self.census.away)
    }

    /// How many nodes are known to come that are not here.
    pub(super) fn missing_nodes(&self) -> u32 {
        let here = self.census.world + self.census.joined + self.census.spare + self.census.away;
        let expected = self.expected.unwrap_or(0).min(self.settings.max).saturating_sub(here);
        expected.max(self.announced)
    }

    fn judge(&self) -> Verdict {
        let census = &self.census;
        let nobody_left = census.world + census.away == 0;
        if census.joined == 0 && !(nobody_left && census.spare > 0) {
            return Verdict::Stands;
        }
        let here = census.joined + census.spare;
        let Some(size) = self.settings.world_of(here.min(self.limit())) else {
            return Verdict::Wait { cause: self.why_too_few(here), enough: false };
        };
        if let Some(expected) = self.expected
            && census.joined >= expected
            && (!self.awaits_survivors() || self.survivors_here() >= expected)
            && self.settings.world_of(expected).is_some()
        {
            let cause = Cause::new(Reason::ExpectedReached, format!("all {expected} expected nodes have joined"));
            return Verdict::Complete { size, cause };
        }
        if self.awaits_survivors() { self.judge_with_survivors(size) } else { self.judge_of_those_here(size) }
    }

    /// Some of the last world are alive and have not joined: they are on their way.
    fn judge_with_survivors(&self, size: u32) -> Verdict {
        let missing = self.census.world + self.census.away;
        if self.waited_for(self.settings.straggler_limit) {
            let limit = self.settings.straggler_limit;
            let cause = format!("{missing} nodes are alive but did not come within {limit:?}");
            return Verdict::Complete { size, cause: Cause::new(Reason::StragglerLeftOut, cause) };
        }
        Verdict::Wait { cause: self.waiting_for_members(), enough: true }
    }

    fn why_too_few(&self, here: u32) -> Cause {
        if self.awaits_survivors() {
            return self.waiting_for_members();
        }
        Cause::new(Reason::WaitingForMinimum, format!("{here} of at least {} nodes are here", self.settings.min))
    }

    fn waiting_for_members(&self) -> Cause {
        let missing = self.census.world + self.census.away;
        let detail = format!("{missing} nodes of the last world are alive and have not joined again");
        Cause::new(Reason::WaitingForMembers, detail)
    }

    /// Everyone alive is here; others may come.
    fn judge_of_those_here(&self, size: u32) -> Verdict {
        let greatest = self.settings.world_of(self.limit());
        if Some(size) == greatest {
            let cause = format!("{size} nodes have joined, which is the most there may be");
            return Verdict::Complete { size, cause: Cause::new(Reason::MaximumReached, cause) };
        }
        let first = self.survivors == 0;
        let unknown = first && self.expected.is_none();
        // After the first world a replacement is only waited for once it is announced: training goes on meanwhile.
        let missing = if first { self.missing_nodes() } else { self.announced };
        if !unknown && missing == 0 {
            let cause = format!("all {size} nodes that are alive have joined");
            return Verdict::Complete { size, cause: Cause::new(Reason::EveryoneJoined, cause) };
        }
        if self.waited_for(self.settings.last_call) {
            let cause = format!("{size} nodes have joined and the last call of {:?} is over", self.settings.last_call);
            return Verdict::Complete { size, cause: Cause::new(Reason::LastCallOver, cause) };
        }
        let cause = match missing {
            0 => format!("{size} nodes have joined; others may come during the last call"),
            missing => format!("{size} nodes have joined; {missing} more are to come"),
        };
        Verdict::Wait { cause: Cause::new(Reason::WaitingForExpected, cause), enough: true }
    }

    fn waited_for(&self, limit: Duration) -> bool {
        self.enough_since.is_some_and(|since| self.clock.now().saturating_sub(since) >= limit)
    }

    fn complete(&mut self, size: u32, cause: Cause, facts: &mut Vec<Fact>) {
        let mut failures = self.program_failures;
        let mut trigger = self.trigger.clone();
        // Who is slow to come makes it no less a failure; who is not expected any more has not failed.
        let by_itself = self.census.world + self.census.away == 0 || cause.reason == Reason::StragglerLeftOut;
        if trigger.is_none() && self.world.is_some() && by_itself {
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
        self.leave_stragglers_out(facts);
        let trigger = trigger.or_else(|| self.trigger.clone());
        let members = ranks::assign(self.candidates(), size as usize);
        let round = self.next_round();
        let trigger = trigger.filter(|_| self.world.is_some());
        self.decide(Fact::Completed { round, members, cause, trigger, program_failures: failures }, facts);
    }

    /// Those that are alive and not here are not members of anything any more: when they come, they come as newcomers.
    fn leave_stragglers_out(&mut self, facts: &mut Vec<Fact>) {
        let stragglers: Vec<MemberId> =
            self.members().filter(|(_, place)| matches!(place, Place::World | Place::Away)).map(|(id, _)| id).collect();
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
            .map(|(name, (life, member))| {
                let id = MemberId::new(Arc::clone(name), *life);
                let last_rank = last_ranks.get(&id).copied().filter(|_| member.survivor);
                let (survives, spare) = (member.processes.survive, member.place == Place::Spare);
                Candidate { id, last_rank, survives, spare, since: member.since }
            })
            .collect()
    }
}
