//! The rendezvous: which nodes form the world of the next round, with which ranks, and why.
//!
//! A [`Rendezvous`] turns [`Event`]s into [`Fact`]s. It completes a round at once when all known nodes have joined, waits
//! for nodes that are announced or alive, and waits a last call where the number of nodes is unknown. Surplus nodes become
//! standbys, ranks stay stable, and rounds that only a failing program explains are counted.
//!
//! The machine sends nothing to nodes: the master reads [`Rendezvous::world`], [`Rendezvous::state_of`] and
//! [`Rendezvous::restart_cause`] and publishes them. Time comes in with every event and need not be steady: no node is
//! lost for a gap in which the master itself was absent. [`Runs`] holds one machine for each run of a job.

mod completion;
mod event;
mod fact;
pub mod invariants;
mod leases;
mod member;
mod ranks;
mod runs;
mod settings;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use flexor_model::{Reason, Round};
use serde::{Deserialize, Serialize};

use crate::active_clock::ActiveClock;
pub use crate::cause::Cause;
pub use event::Event;
pub use fact::Fact;
use member::{Census, Lease, Member};
pub use member::{MemberId, MemberState, Processes};
pub use runs::{RunId, Runs, TooManyRuns};
pub use settings::{STRAGGLER_LIMIT, Settings, SettingsError};
pub use world::World;

/// How many of the rounds in which the program failed are remembered.
const REMEMBERED_FAILURES: usize = 16;

/// The rendezvous of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rendezvous {
    settings: Settings,
    members: BTreeMap<Arc<str>, (u64, Member)>,
    world: Option<World>,
    /// Rounds before this one were used by an earlier master whose journal is lost.
    first_round: Round,
    /// How many members of the last world are alive, in any state.
    survivors: u32,
    /// How many members of the world have finished.
    #[serde(default)]
    finished: u32,
    expected: Option<u32>,
    /// The first loss or newcomer since the last round completed.
    trigger: Option<Cause>,
    program_failures: u32,
    /// The last rounds that ended because the program failed, at most 16.
    #[serde(default)]
    failed_rounds: BTreeSet<Round>,
    closed: Option<Cause>,
    arrivals: u64,
    /// Part of a snapshot, because the facts that follow the snapshot change it.
    census: Census,
    #[serde(skip)]
    announced: u32,
    #[serde(skip)]
    clock: ActiveClock,
    /// When a round that still waits first had enough nodes.
    #[serde(skip)]
    enough_since: Option<Duration>,
    /// When the first newcomer began to wait for a running world.
    #[serde(skip)]
    newcomer_since: Option<Duration>,
    /// No member is lost for silence before this time.
    #[serde(skip)]
    grace_until: Duration,
    /// No lease expires before this time.
    #[serde(skip)]
    leases_hold_until: Duration,
    /// Some member has said that its processes survive world changes.
    #[serde(skip)]
    may_survive: bool,
    /// Members whose sidecar connection was lost and has not come back.
    #[serde(skip)]
    cut_off: BTreeSet<Arc<str>>,
}

impl Rendezvous {
    /// Creates a rendezvous without members.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            members: BTreeMap::new(),
            world: None,
            first_round: Round(0),
            survivors: 0,
            finished: 0,
            expected: None,
            trigger: None,
            program_failures: 0,
            failed_rounds: BTreeSet::new(),
            closed: None,
            arrivals: 0,
            census: Census::default(),
            announced: 0,
            clock: ActiveClock::default(),
            enough_since: None,
            newcomer_since: None,
            grace_until: Duration::ZERO,
            leases_hold_until: Duration::MAX,
            may_survive: false,
            cut_off: BTreeSet::new(),
        }
    }

    /// Starts a rendezvous that was read from a snapshot or whose facts were replayed. Every member has the reconnect
    /// grace to send a heartbeat.
    pub fn resume(mut self, settings: Settings, now: Duration) -> Self {
        let until = now + settings.reconnect_grace;
        self.settings = settings;
        self.clock = ActiveClock::since(now);
        self.census = Census::default();
        self.enough_since = None;
        self.newcomer_since = None;
        self.leases_hold_until = until;
        self.grace_until = until;
        for (_, member) in self.members.values_mut() {
            member.lease_until = until;
            member.lease = Lease::Restored;
            self.may_survive |= member.opted_in || member.processes.survive;
            self.census.add(member.state);
        }
        self.newcomer_since = (self.census.joined > 0).then_some(now);
        self
    }

    /// Applies an event and returns the facts that were decided.
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Fact> {
        self.clock.advance(now);
        let mut facts = Vec::new();
        match event {
            Event::Join { id, processes } => self.join(id, processes, &mut facts),
            Event::Leave { id } => {
                self.renew_lease(&id);
                if self.state_of(&id).is_some_and(|state| state != MemberState::Away) {
                    self.decide(Fact::Left { id }, &mut facts);
                }
            }
            Event::Heartbeat { id } => self.renew_lease(&id),
            Event::ConnectionLost { id, grace } => self.shorten_lease(&id, grace),
            Event::Lost { id, cause } => {
                if self.state_of(&id).is_some() {
                    let cause = if self.closed.is_some() { ended() } else { cause };
                    self.decide(Fact::Dropped { id, cause }, &mut facts);
                }
            }
            Event::Expect { nodes } => {
                if self.expected != nodes {
                    self.decide(Fact::Expected { nodes }, &mut facts);
                    self.promote_standbys(&mut facts);
                }
            }
            Event::Announced { missing } => self.announced = missing,
            Event::Finish { id } => {
                self.renew_lease(&id);
                let works =
                    self.member(&id).is_some_and(|member| member.state == MemberState::InWorld && !member.finished);
                if works && self.closed.is_none() {
                    self.decide(Fact::Finished { id }, &mut facts);
                }
            }
            Event::OptIn { id } => {
                self.renew_lease(&id);
                if let Some((incarnation, member)) = self.members.get_mut(&id.name)
                    && *incarnation == id.incarnation
                {
                    member.opted_in = true;
                    self.may_survive = true;
                }
            }
            Event::Close { by } => self.close(&by, &mut facts),
            Event::Reopen => {
                if let Some(closed) = &self.closed {
                    let cause = Cause::new(Reason::RunReopened, format!("it was closed with {closed}"));
                    self.decide(Fact::Reopened { cause }, &mut facts);
                }
            }
            Event::Tick => {}
        }
        self.drop_expired_members(&mut facts);
        self.drop_cut_off_members(&mut facts);
        self.close_if_finished(&mut facts);
        self.complete_if_due(&mut facts);
        debug_assert_eq!(invariants::broken(self), None, "after {facts:?}");
        facts
    }

    /// Applies a fact that was read from a journal.
    pub fn replay(&mut self, fact: &Fact) {
        self.apply(fact);
    }

    /// The last complete world, if there was one. Some of its members may have left or been lost since.
    pub fn world(&self) -> Option<&World> {
        self.world.as_ref()
    }

    /// The number of the round that will complete next.
    pub fn next_round(&self) -> Round {
        self.world.as_ref().map_or(Round(0), |world| world.round.next()).max(self.first_round)
    }

    /// Makes the numbers of all later rounds greater than `round`, which an earlier master has used.
    pub fn skip_rounds_through(&mut self, round: Round) {
        if self.world.as_ref().is_none_or(|world| world.round < round) {
            self.first_round = self.first_round.max(round.next());
        }
    }

    /// The state of a member; none if the node never joined or was lost.
    pub fn state_of(&self, id: &MemberId) -> Option<MemberState> {
        self.member(id).map(|member| member.state)
    }

    /// All live members with their states.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, MemberState)> + '_ {
        self.members
            .iter()
            .map(|(name, (incarnation, member))| (MemberId::new(Arc::clone(name), *incarnation), member.state))
    }

    /// Why the members of the world should stop and join again; none while the world is to keep running.
    pub fn restart_cause(&self) -> Option<Cause> {
        let world = self.world.as_ref()?;
        if self.closed.is_some() || self.census.world == 0 {
            return None;
        }
        if (self.census.world as usize) < world.members.len() {
            let failed =
                || Cause::new(Reason::ProgramFailed, "a node of the world joined again while the others still run");
            return Some(self.trigger.clone().unwrap_or_else(failed));
        }
        let waited = self.newcomer_since.map(|since| self.clock.now().saturating_sub(since))?;
        let all_joined = self.missing_nodes() == 0;
        (all_joined || waited >= self.settings.last_call)
            .then(|| self.trigger.clone().unwrap_or_else(|| Cause::new(Reason::NodeJoined, "a node wants to join")))
    }

    /// Whether processes of the last world survive world changes.
    pub fn survives_world_changes(&self) -> bool {
        // Every node of a world asks this at the same time.
        self.may_survive
            && self.members.values().any(|(_, member)| member.survivor && (member.opted_in || member.processes.survive))
    }

    /// Whether all live members together are too few for a world.
    pub fn needs_more_nodes(&self) -> bool {
        let Census { world, joined, standby, away } = self.census;
        self.closed.is_none() && self.settings.world_of(world + joined + standby + away).is_none()
    }

    pub fn closed(&self) -> Option<&Cause> {
        self.closed.as_ref()
    }

    pub fn program_failures(&self) -> u32 {
        self.program_failures
    }

    /// The last rounds that ended because the program failed, at most 16.
    pub fn failed_rounds(&self) -> &BTreeSet<Round> {
        &self.failed_rounds
    }

    /// The target number of nodes, if the controller has set it.
    pub fn expected(&self) -> Option<u32> {
        self.expected
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When an [`Event::Tick`] can next change something.
    pub fn next_deadline(&self) -> Option<Duration> {
        let mut next = (!self.members.is_empty()).then_some(self.leases_hold_until);
        let limit = if self.awaits_survivors() { self.settings.straggler_limit } else { self.settings.last_call };
        for since_limit in [
            self.enough_since.map(|since| since + limit),
            self.newcomer_since.map(|since| since + self.settings.last_call),
        ] {
            next = [next, since_limit].into_iter().flatten().filter(|moment| *moment > self.clock.now()).min();
        }
        next.map(|moment| self.clock.owner_time_at(moment))
    }

    fn join(&mut self, id: MemberId, processes: Processes, facts: &mut Vec<Fact>) {
        if self.closed.is_some() {
            return;
        }
        if let Some((incarnation, _)) = self.members.get(&id.name) {
            if *incarnation > id.incarnation {
                return;
            }
            if *incarnation < id.incarnation {
                let earlier = MemberId::new(Arc::clone(&id.name), *incarnation);
                let detail = format!("{} came again in a later incarnation", id.name);
                self.decide(Fact::Dropped { id: earlier, cause: Cause::new(Reason::NodeReplaced, detail) }, facts);
            }
        }
        self.renew_lease(&id);
        match self.state_of(&id) {
            Some(MemberState::Joined | MemberState::Standby) => {
                if self.member(&id).is_some_and(|member| member.processes != processes) {
                    self.decide(Fact::ProcessesChanged { id, processes }, facts);
                }
            }
            Some(MemberState::InWorld | MemberState::Away) => {
                self.decide(Fact::Joined { id, newcomer: false, processes }, facts);
            }
            None => match self.standby_cause() {
                Some(cause) => self.decide(Fact::Standby { id, cause, processes }, facts),
                None => self.decide(Fact::Joined { id, newcomer: true, processes }, facts),
            },
        }
    }

    /// Why one more node would not make the world larger, and therefore becomes a standby.
    fn standby_cause(&self) -> Option<Cause> {
        let world = self.world.as_ref()?;
        let size = world.members.len();
        if (self.census.world as usize) < size || self.census.joined > 0 {
            return None;
        }
        let with_another = self.census.world + self.census.standby + 1;
        let possible = self.settings.world_of(with_another.min(self.target_size())).unwrap_or(0) as usize;
        (possible <= size).then(|| {
            let unit = self.settings.unit;
            let cause = if size >= self.settings.max as usize {
                format!("the world has its maximum size, {size}")
            } else if size >= self.target_size() as usize {
                format!("the world has the {size} nodes that are expected")
            } else {
                format!("the world of {size} grows by {unit} nodes at a time")
            };
            Cause::new(Reason::SpareKept, cause)
        })
    }

    /// The largest size that a world may have at present: the expected number of nodes if that is a valid size, otherwise
    /// the maximum.
    fn target_size(&self) -> u32 {
        let possible = |nodes: &u32| self.settings.world_of(*nodes).is_some();
        self.expected.filter(possible).unwrap_or(self.settings.max).min(self.settings.max)
    }

    /// Standbys that fit into a larger world join it, longest waiting first.
    fn promote_standbys(&mut self, facts: &mut Vec<Fact>) {
        let Some(world) = &self.world else { return };
        let available = self.census.world + self.census.standby;
        let possible = self.settings.world_of(available.min(self.target_size())).unwrap_or(0);
        let is_settled = self.census.world as usize == world.members.len() && self.census.joined == 0;
        if self.closed.is_some() || !is_settled || possible <= self.census.world {
            return;
        }
        let mut standbys: Vec<(u64, MemberId, Processes)> = self
            .members
            .iter()
            .filter(|(_, (_, member))| member.state == MemberState::Standby)
            .map(|(name, (incarnation, member))| {
                (member.since, MemberId::new(Arc::clone(name), *incarnation), member.processes)
            })
            .collect();
        standbys.sort_unstable_by_key(|(since, ..)| *since);
        for (_, id, processes) in standbys.into_iter().take((possible - self.census.world) as usize) {
            self.decide(Fact::Joined { id, newcomer: true, processes }, facts);
        }
    }

    fn close(&mut self, by: &MemberId, facts: &mut Vec<Fact>) {
        if self.closed.is_some() {
            return;
        }
        let cause = match self.state_of(by) {
            Some(_) => Cause::new(Reason::ClosedByNode, format!("{by} ended and closed the run")),
            None => return,
        };
        self.decide(Fact::Closed { cause }, facts);
    }

    /// Closes the run when all remaining members of the world have finished.
    fn close_if_finished(&mut self, facts: &mut Vec<Fact>) {
        let Census { world, joined, away, .. } = self.census;
        if self.closed.is_none() && self.finished > 0 && self.finished == world && joined + away == 0 {
            let detail = format!("the program has finished on all {world} nodes");
            self.decide(Fact::Closed { cause: Cause::new(Reason::RunFinished, detail) }, facts);
        }
    }

    fn decide(&mut self, fact: Fact, facts: &mut Vec<Fact>) {
        self.apply(&fact);
        facts.push(fact);
    }

    /// The only function that changes journaled state.
    fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::Joined { id, newcomer, processes } => {
                self.put(id, MemberState::Joined);
                self.bring(id, *processes);
                if *newcomer {
                    self.newcomer_since.get_or_insert(self.clock.now());
                    self.trigger.get_or_insert_with(|| Cause::new(Reason::NodeJoined, format!("{id} joined")));
                }
            }
            Fact::Standby { id, processes, .. } => {
                self.put(id, MemberState::Standby);
                self.bring(id, *processes);
            }
            Fact::ProcessesChanged { id, processes } => self.bring(id, *processes),
            Fact::Left { id } => self.put(id, MemberState::Away),
            Fact::Finished { id } => {
                if let Some((_, member)) = self.members.get_mut(&id.name) {
                    self.finished += u32::from(!std::mem::replace(&mut member.finished, true));
                }
            }
            Fact::Dropped { id, cause } => {
                let was_intact = self.is_world_intact();
                let was_participant = self.member(id).is_some_and(|member| member.state != MemberState::Standby);
                self.forget(id);
                if was_intact && self.is_world_intact() {
                    // The world lost no member. Without a remaining newcomer there is no reason for another round.
                    if self.census.joined + self.census.away == 0 {
                        (self.newcomer_since, self.trigger) = (None, None);
                    }
                } else if was_participant {
                    let detail = format!("{id} was lost ({cause})");
                    self.trigger.get_or_insert_with(|| Cause::new(Reason::NodeLost, detail));
                }
            }
            Fact::Completed { round, members, program_failures, .. } => {
                if *program_failures > self.program_failures {
                    self.note_failed_round();
                }
                self.program_failures = *program_failures;
                self.enter_world(*round, members);
            }
            Fact::Closed { cause } => {
                if cause.reason == Reason::RestartsExhausted {
                    // The failure that closes the run is counted too.
                    self.program_failures += 1;
                    self.note_failed_round();
                }
                self.closed = Some(cause.clone());
            }
            Fact::Reopened { cause } => {
                self.closed = None;
                self.program_failures = 0;
                self.trigger = Some(cause.clone());
            }
            Fact::Expected { nodes } => self.expected = *nodes,
        }
    }

    /// Whether there is a world and all its members are still in it.
    fn is_world_intact(&self) -> bool {
        self.world.as_ref().is_some_and(|world| world.members.len() == self.census.world as usize)
    }

    fn enter_world(&mut self, round: Round, members: &[MemberId]) {
        self.trigger = None;
        self.newcomer_since = None;
        self.enough_since = None;
        for (_, member) in self.members.values_mut() {
            member.survivor = false;
            if member.state == MemberState::Joined {
                self.census.remove(MemberState::Joined);
                member.state = MemberState::Standby;
                self.census.add(MemberState::Standby);
            }
        }
        let mut processes = Vec::with_capacity(members.len());
        for id in members {
            self.put(id, MemberState::InWorld);
            if let Some((_, member)) = self.members.get_mut(&id.name) {
                member.survivor = true;
                processes.push(member.processes);
            }
        }
        self.survivors = self.census.world;
        self.world = Some(World::new(round, members.to_vec(), processes));
    }

    fn put(&mut self, id: &MemberId, state: MemberState) {
        let lease_until = self.clock.now() + self.settings.silence;
        self.leases_hold_until = self.leases_hold_until.min(lease_until);
        self.arrivals += 1;
        let since = self.arrivals;
        match self.members.get_mut(&id.name) {
            Some((incarnation, member)) if *incarnation == id.incarnation => {
                self.census.remove(member.state);
                self.finished -= u32::from(std::mem::take(&mut member.finished));
                (member.state, member.since) = (state, since);
            }
            Some(_) | None => {
                let member = Member {
                    state,
                    since,
                    survivor: false,
                    finished: false,
                    processes: Processes::default(),
                    opted_in: false,
                    lease_until,
                    lease: Lease::Heard,
                };
                self.members.insert(Arc::clone(&id.name), (id.incarnation, member));
            }
        }
        self.census.add(state);
    }

    fn note_failed_round(&mut self) {
        self.failed_rounds.extend(self.world.as_ref().map(|world| world.round));
        if self.failed_rounds.len() > REMEMBERED_FAILURES {
            self.failed_rounds.pop_first();
        }
    }

    fn bring(&mut self, id: &MemberId, processes: Processes) {
        if let Some((incarnation, member)) = self.members.get_mut(&id.name)
            && *incarnation == id.incarnation
        {
            member.processes = processes;
            self.may_survive |= processes.survive;
        }
    }

    fn forget(&mut self, id: &MemberId) -> Option<MemberState> {
        self.member(id)?;
        let (_, member) = self.members.remove(&id.name)?;
        self.cut_off.remove(&id.name);
        self.census.remove(member.state);
        self.survivors -= u32::from(member.survivor);
        self.finished -= u32::from(member.finished);
        Some(member.state)
    }

    fn member(&self, id: &MemberId) -> Option<&Member> {
        self.members.get(&id.name).filter(|(incarnation, _)| *incarnation == id.incarnation).map(|(_, member)| member)
    }
}

/// Why a member is dropped after the run has closed.
fn ended() -> Cause {
    Cause::new(Reason::NodeEnded, "the run is closed")
}
