//! The rendezvous: which nodes form the world of the next round, with which ranks, and why.
//!
//! Nodes join, leave, are heard and are lost; the machine answers with [`Fact`]s. It completes a round at once when it
//! knows that nobody else will come, waits for those it knows of, and makes a last call where it cannot know. It keeps
//! what is left over as spares, keeps ranks stable, and counts the rounds that only a failing program explains.
//!
//! It is *not* for telling nodes anything: [`Rendezvous::world`], [`Rendezvous::place_of`] and
//! [`Rendezvous::restart_wanted`] say what there is to tell, and the owner knows how. Time comes in with every event and
//! need not be steady: a gap that only an absence of the owner explains makes nobody lost.

mod completion;
mod event;
mod fact;
pub mod invariants;
mod leases;
mod member;
mod ranks;
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
pub use member::{MemberId, Place, Processes};
pub use settings::{STRAGGLER_LIMIT, Settings, SettingsError};
pub use world::World;

/// How many rounds in which the program failed are remembered.
const REMEMBERED_FAILURES: usize = 16;

/// The machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rendezvous {
    settings: Settings,
    members: BTreeMap<Arc<str>, (u64, Member)>,
    world: Option<World>,
    /// Rounds before this one were used by a master that is forgotten.
    first_round: Round,
    /// How many of the last world are alive, wherever they stand.
    survivors: u32,
    /// How many of the world have finished.
    #[serde(default)]
    finished: u32,
    expected: Option<u32>,
    /// The first loss or newcomer since the last round completed.
    trigger: Option<Cause>,
    program_failures: u32,
    /// The last rounds that ended because the program failed.
    #[serde(default)]
    failed_rounds: BTreeSet<Round>,
    closed: Option<Cause>,
    arrivals: u64,
    /// Facts that follow a snapshot change it, so it is part of one.
    census: Census,
    #[serde(skip)]
    announced: u32,
    #[serde(skip)]
    clock: ActiveClock,
    /// Since when there are enough nodes for a round that nevertheless waits.
    #[serde(skip)]
    enough_since: Option<Duration>,
    /// Since when a newcomer waits for a world that stands.
    #[serde(skip)]
    newcomer_since: Option<Duration>,
    /// Nobody is lost for silence before this.
    #[serde(skip)]
    grace_until: Duration,
    /// No lease runs out before this.
    #[serde(skip)]
    leases_hold_until: Duration,
    /// Those whose sidecar was lost and has not come back.
    #[serde(skip)]
    cut_off: BTreeSet<Arc<str>>,
}

impl Rendezvous {
    /// A rendezvous that nobody has joined yet.
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
            cut_off: BTreeSet::new(),
        }
    }

    /// Puts a rendezvous that was read back, or whose facts were replayed, to work: everyone in it has the reconnect
    /// grace to be heard.
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
            self.census.add(member.place);
        }
        self.newcomer_since = (self.census.joined > 0).then_some(now);
        self
    }

    /// Takes in an event and decides.
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Fact> {
        self.clock.advance(now);
        let mut facts = Vec::new();
        match event {
            Event::Join { id, processes } => self.join(id, processes, &mut facts),
            Event::Leave { id } => {
                self.hear(&id);
                if self.place_of(&id).is_some_and(|place| place != Place::Away) {
                    self.decide(Fact::Left { id }, &mut facts);
                }
            }
            Event::Heard { id } => self.hear(&id),
            Event::ConnectionLost { id, grace } => self.shorten_lease(&id, grace),
            Event::Gone { id, cause } => {
                if self.place_of(&id).is_some() {
                    let cause = if self.closed.is_some() { ended() } else { cause };
                    self.decide(Fact::Dropped { id, cause }, &mut facts);
                }
            }
            Event::Expect { nodes } => {
                if self.expected != nodes {
                    self.decide(Fact::Expected { nodes }, &mut facts);
                    self.use_spares(&mut facts);
                }
            }
            Event::Announced { missing } => self.announced = missing,
            Event::Finish { id } => {
                self.hear(&id);
                let works = self.member(&id).is_some_and(|member| member.place == Place::World && !member.finished);
                if works && self.closed.is_none() {
                    self.decide(Fact::Finished { id }, &mut facts);
                }
            }
            Event::OptIn { id } => {
                self.hear(&id);
                if let Some((_, member)) = self.members.get_mut(&id.name).filter(|(life, _)| *life == id.incarnation) {
                    member.opted_in = true;
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
        self.drop_the_silent(&mut facts);
        self.drop_whom_all_others_left(&mut facts);
        self.close_if_finished(&mut facts);
        self.complete_if_due(&mut facts);
        debug_assert_eq!(invariants::broken(self), None, "after {facts:?}");
        facts
    }

    /// Takes over a fact that was decided before, from a journal.
    pub fn replay(&mut self, fact: &Fact) {
        self.apply(fact);
    }

    /// The last complete world, if there was one. Some of it may have left or been lost since.
    pub fn world(&self) -> Option<&World> {
        self.world.as_ref()
    }

    /// The number of the round that completes next.
    pub fn next_round(&self) -> Round {
        self.world.as_ref().map_or(Round(0), |world| world.round.next()).max(self.first_round)
    }

    /// Makes the numbers of all later rounds greater than this one, which is known to have been used.
    pub fn rounds_after(&mut self, round: Round) {
        if self.world.as_ref().is_none_or(|world| world.round < round) {
            self.first_round = self.first_round.max(round.next());
        }
    }

    /// Where a node stands. Nothing for one that never joined or was lost.
    pub fn place_of(&self, id: &MemberId) -> Option<Place> {
        self.member(id).map(|member| member.place)
    }

    /// Everyone alive, with where they stand.
    pub fn members(&self) -> impl Iterator<Item = (MemberId, Place)> + '_ {
        self.members.iter().map(|(name, (life, member))| (MemberId::new(Arc::clone(name), *life), member.place))
    }

    /// Why those in the world should stop and join again; nothing while it stands.
    pub fn restart_wanted(&self) -> Option<Cause> {
        let world = self.world.as_ref()?;
        if self.closed.is_some() || self.census.world == 0 {
            return None;
        }
        if (self.census.world as usize) < world.members.len() {
            let failed = || Cause::new(Reason::ProgramFailed, "a node of the world meets again, all others stand");
            return Some(self.trigger.clone().unwrap_or_else(failed));
        }
        let waited = self.newcomer_since.map(|since| self.clock.now().saturating_sub(since))?;
        let all_here = self.missing_nodes() == 0;
        (all_here || waited >= self.settings.last_call)
            .then(|| self.trigger.clone().unwrap_or_else(|| Cause::new(Reason::NodeJoined, "a node wants to join")))
    }

    /// Whether processes of the world outlive changes.
    pub fn outlives_changes(&self) -> bool {
        self.members.values().any(|(_, member)| member.survivor && (member.opted_in || member.processes.survive))
    }

    /// Whether those who are here cannot be a world, whatever they do: somebody else has to come.
    pub fn is_too_small(&self) -> bool {
        let Census { world, joined, spare, away } = self.census;
        self.closed.is_none() && self.settings.world_of(world + joined + spare + away).is_none()
    }

    /// Why the run is closed, if it is.
    pub fn closed(&self) -> Option<&Cause> {
        self.closed.as_ref()
    }

    /// How many times the program has failed.
    pub fn program_failures(&self) -> u32 {
        self.program_failures
    }

    /// The last rounds that ended because the program failed.
    pub fn failed_rounds(&self) -> &BTreeSet<Round> {
        &self.failed_rounds
    }

    /// How many nodes the world should have, if that is known.
    pub fn expected(&self) -> Option<u32> {
        self.expected
    }

    /// What was set at the start.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When the next [`Event::Tick`] can change something.
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
        if let Some((life, _)) = self.members.get(&id.name) {
            if *life > id.incarnation {
                return;
            }
            if *life < id.incarnation {
                let earlier = MemberId::new(Arc::clone(&id.name), *life);
                let detail = format!("{} came again in a later life", id.name);
                self.decide(Fact::Dropped { id: earlier, cause: Cause::new(Reason::NodeReplaced, detail) }, facts);
            }
        }
        self.hear(&id);
        match self.place_of(&id) {
            Some(Place::Joined | Place::Spare) => {
                if self.member(&id).is_some_and(|member| member.processes != processes) {
                    self.decide(Fact::Brings { id, processes }, facts);
                }
            }
            Some(Place::World | Place::Away) => self.decide(Fact::Joined { id, newcomer: false, processes }, facts),
            None => match self.no_place_for_another() {
                Some(cause) => self.decide(Fact::Spared { id, cause, processes }, facts),
                None => self.decide(Fact::Joined { id, newcomer: true, processes }, facts),
            },
        }
    }

    /// Why one more node would not make the world greater.
    fn no_place_for_another(&self) -> Option<Cause> {
        let world = self.world.as_ref()?;
        let size = world.members.len();
        if (self.census.world as usize) < size || self.census.joined > 0 {
            return None;
        }
        let with_another = self.census.world + self.census.spare + 1;
        let possible = self.settings.world_of(with_another.min(self.limit())).unwrap_or(0) as usize;
        (possible <= size).then(|| {
            let unit = self.settings.unit;
            let cause = if size >= self.settings.max as usize {
                format!("the world has its greatest size, {size}")
            } else if size >= self.limit() as usize {
                format!("the world has the {size} nodes that are expected")
            } else {
                format!("the world of {size} grows by {unit} nodes at a time")
            };
            Cause::new(Reason::SpareKept, cause)
        })
    }

    /// How great a world may be at present: as many as are expected, where that is known and possible.
    fn limit(&self) -> u32 {
        let possible = |nodes: &u32| self.settings.world_of(*nodes).is_some();
        self.expected.filter(possible).unwrap_or(self.settings.max).min(self.settings.max)
    }

    /// Spares that a greater world has a place for join it.
    fn use_spares(&mut self, facts: &mut Vec<Fact>) {
        let Some(world) = &self.world else { return };
        let here = self.census.world + self.census.spare;
        let possible = self.settings.world_of(here.min(self.limit())).unwrap_or(0);
        let stands = self.census.world as usize == world.members.len() && self.census.joined == 0;
        if self.closed.is_some() || !stands || possible <= self.census.world {
            return;
        }
        let mut spares: Vec<(u64, MemberId, Processes)> = self
            .members
            .iter()
            .filter(|(_, (_, member))| member.place == Place::Spare)
            .map(|(name, (life, member))| (member.since, MemberId::new(Arc::clone(name), *life), member.processes))
            .collect();
        spares.sort_unstable_by_key(|(since, ..)| *since);
        for (_, id, processes) in spares.into_iter().take((possible - self.census.world) as usize) {
            self.decide(Fact::Joined { id, newcomer: true, processes }, facts);
        }
    }

    fn close(&mut self, by: &MemberId, facts: &mut Vec<Fact>) {
        if self.closed.is_some() {
            return;
        }
        let cause = match self.place_of(by) {
            Some(_) => Cause::new(Reason::ClosedByNode, format!("{by} ended and closed the run")),
            None => return,
        };
        self.decide(Fact::Closed { cause }, facts);
    }

    /// The run is over when everybody of the world who is left has finished.
    fn close_if_finished(&mut self, facts: &mut Vec<Fact>) {
        let Census { world, joined, away, .. } = self.census;
        if self.closed.is_none() && self.finished > 0 && self.finished == world && joined + away == 0 {
            let detail = format!("the program has ended well on all {world} nodes");
            self.decide(Fact::Closed { cause: Cause::new(Reason::RunFinished, detail) }, facts);
        }
    }

    fn decide(&mut self, fact: Fact, facts: &mut Vec<Fact>) {
        self.apply(&fact);
        facts.push(fact);
    }

    /// The only place where what is journaled changes.
    fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::Joined { id, newcomer, processes } => {
                self.put(id, Place::Joined);
                self.bring(id, *processes);
                if *newcomer {
                    self.newcomer_since.get_or_insert(self.clock.now());
                    self.trigger.get_or_insert_with(|| Cause::new(Reason::NodeJoined, format!("{id} joined")));
                }
            }
            Fact::Spared { id, processes, .. } => {
                self.put(id, Place::Spare);
                self.bring(id, *processes);
            }
            Fact::Brings { id, processes } => self.bring(id, *processes),
            Fact::Left { id } => self.put(id, Place::Away),
            Fact::Finished { id } => {
                if let Some((_, member)) = self.members.get_mut(&id.name) {
                    self.finished += u32::from(!std::mem::replace(&mut member.finished, true));
                }
            }
            Fact::Dropped { id, cause } => {
                let stood = self.stands();
                let was_of_it = self.member(id).is_some_and(|member| member.place != Place::Spare);
                self.forget(id);
                if stood && self.stands() {
                    // Nobody of the world is gone: if no newcomer is left, nothing is left to meet again for.
                    if self.census.joined + self.census.away == 0 {
                        (self.newcomer_since, self.trigger) = (None, None);
                    }
                } else if was_of_it {
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
                    // The failure that closes the run is one too.
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

    /// Whether there is a world and everybody of it is in it.
    fn stands(&self) -> bool {
        self.world.as_ref().is_some_and(|world| world.members.len() == self.census.world as usize)
    }

    fn enter_world(&mut self, round: Round, members: &[MemberId]) {
        self.trigger = None;
        self.newcomer_since = None;
        self.enough_since = None;
        for (_, member) in self.members.values_mut() {
            member.survivor = false;
            if member.place == Place::Joined {
                self.census.remove(Place::Joined);
                member.place = Place::Spare;
                self.census.add(Place::Spare);
            }
        }
        let mut processes = Vec::with_capacity(members.len());
        for id in members {
            self.put(id, Place::World);
            if let Some((_, member)) = self.members.get_mut(&id.name) {
                member.survivor = true;
                processes.push(member.processes);
            }
        }
        self.survivors = self.census.world;
        self.world = Some(World::new(round, members.to_vec(), processes));
    }

    fn put(&mut self, id: &MemberId, place: Place) {
        let lease_until = self.clock.now() + self.settings.silence;
        self.leases_hold_until = self.leases_hold_until.min(lease_until);
        self.arrivals += 1;
        let since = self.arrivals;
        match self.members.get_mut(&id.name) {
            Some((life, member)) if *life == id.incarnation => {
                self.census.remove(member.place);
                self.finished -= u32::from(std::mem::take(&mut member.finished));
                (member.place, member.since) = (place, since);
            }
            Some(_) | None => {
                let member = Member {
                    place,
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
        self.census.add(place);
    }

    fn note_failed_round(&mut self) {
        self.failed_rounds.extend(self.world.as_ref().map(|world| world.round));
        if self.failed_rounds.len() > REMEMBERED_FAILURES {
            self.failed_rounds.pop_first();
        }
    }

    fn bring(&mut self, id: &MemberId, processes: Processes) {
        if let Some((life, member)) = self.members.get_mut(&id.name)
            && *life == id.incarnation
        {
            member.processes = processes;
        }
    }

    fn forget(&mut self, id: &MemberId) -> Option<Place> {
        self.member(id)?;
        let (_, member) = self.members.remove(&id.name)?;
        self.cut_off.remove(&id.name);
        self.census.remove(member.place);
        self.survivors -= u32::from(member.survivor);
        self.finished -= u32::from(member.finished);
        Some(member.place)
    }

    fn member(&self, id: &MemberId) -> Option<&Member> {
        self.members.get(&id.name).filter(|(life, _)| *life == id.incarnation).map(|(_, member)| member)
    }
}

/// Why somebody goes when there is nothing left to do.
fn ended() -> Cause {
    Cause::new(Reason::NodeEnded, "the run is closed")
}
