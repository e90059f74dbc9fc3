//! One run of torchrun: its rendezvous, who is connected to it, and the replies it holds back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use flexor_engine::rendezvous::{Event, Fact, MemberId, Place, Rendezvous};
use flexor_model::Round;

use super::facts::{Lsn, RunId};
use super::view::WorldView;
use crate::service::{ConnId, Now};

/// How long the reply of a join or a poll of somebody who waits is held for something to happen. Agents that poll once a
/// second meet at once this way.
const HOLD: Duration = Duration::from_secs(2);

/// A run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) machine: Rendezvous,
    pub(super) view: Option<WorldView>,
    /// Nobody is told of the present world before this much of the journal is durable.
    pub(super) visible_after: Lsn,
    /// The connection that speaks for a member, where one does.
    pub(super) connections: BTreeMap<MemberId, ConnId>,
    /// The pod of a member, where its sidecar told it.
    pub(super) pods: BTreeMap<MemberId, Arc<str>>,
    /// Pods that are to come and have no member yet.
    pub(super) announced: BTreeSet<Arc<str>>,
    /// Who has counted itself out of the round at its end.
    pub(super) exits: Exits,
    /// Counts what everybody has to be told: a world, the wish to meet again, the end.
    pub(super) epoch: u64,
    restart_told: bool,
    was_visible: bool,
    waiting: VecDeque<(Now, ConnId)>,
    due: Vec<ConnId>,
    /// Somebody's place has changed since held replies were last looked at.
    moved: bool,
}

/// Whether a fact can change the place of anybody but those that it names and that speak at this moment.
fn moves_somebody_who_waits(fact: &Fact) -> bool {
    match fact {
        Fact::Completed { .. } | Fact::Closed { .. } | Fact::Reopened { .. } | Fact::Dropped { .. } => true,
        Fact::Joined { .. }
        | Fact::Spared { .. }
        | Fact::Brings { .. }
        | Fact::Left { .. }
        | Fact::Finished { .. }
        | Fact::Expected { .. } => false,
    }
}

/// Who has counted itself out of which round.
#[derive(Debug, Default)]
pub(super) struct Exits {
    pub(super) round: Round,
    pub(super) members: BTreeSet<MemberId>,
}

impl Run {
    pub(super) fn new(id: RunId, machine: Rendezvous) -> Self {
        Self {
            id,
            machine,
            view: None,
            visible_after: 0,
            connections: BTreeMap::new(),
            pods: BTreeMap::new(),
            announced: BTreeSet::new(),
            exits: Exits::default(),
            epoch: 0,
            restart_told: false,
            was_visible: true,
            waiting: VecDeque::new(),
            due: Vec::new(),
            moved: false,
        }
    }

    /// Tells the machine something and keeps the view of the world up to date.
    pub(super) fn handle(&mut self, event: Event, now: Now) -> Vec<Fact> {
        let mut facts = self.machine.handle(event, now);
        let joined = facts.iter().any(|fact| matches!(fact, Fact::Joined { .. } | Fact::Spared { .. }));
        if joined && self.forget_announced() {
            let missing = u32::try_from(self.announced.len()).unwrap_or(u32::MAX);
            facts.extend(self.machine.handle(Event::Announced { missing }, now));
        }
        if facts.iter().any(|fact| matches!(fact, Fact::Completed { .. })) {
            self.refresh_view();
        }
        self.moved |= facts.iter().any(moves_somebody_who_waits);
        self.count_epoch(&facts);
        facts
    }

    fn count_epoch(&mut self, facts: &[Fact]) {
        // Who is dropped while it waits has to hear of it: it would wait for ever.
        let news = |fact: &Fact| {
            matches!(fact, Fact::Completed { .. } | Fact::Closed { .. } | Fact::Reopened { .. } | Fact::Dropped { .. })
        };
        let restart = self.machine.restart_wanted().is_some();
        if facts.iter().any(news) || restart != self.restart_told {
            self.epoch += 1;
        }
        self.restart_told = restart;
    }

    /// A world that becomes durable is news for those who wait for it.
    pub(super) fn note_visibility(&mut self, visible: bool) {
        if visible && !self.was_visible {
            self.epoch += 1;
        }
        self.was_visible = visible;
    }

    pub(super) fn refresh_view(&mut self) {
        let max = self.machine.settings().max;
        self.view = self.machine.world().map(|world| WorldView::new(world, max));
    }

    /// Owes a connection a reply: at once, or when what it waits for has happened, at the latest after a while.
    pub(super) fn owe(&mut self, conn: ConnId, member: Option<&MemberId>, now: Now) {
        match member.and_then(|member| self.machine.place_of(member)) {
            Some(Place::Joined | Place::Spare) => self.waiting.push_back((now + HOLD, conn)),
            Some(Place::World | Place::Away) | None => self.due.push(conn),
        }
    }

    /// The connections to be answered. `settled` tells whether a connection's member is no longer where it waits.
    pub(super) fn take_due(&mut self, now: Now, visible: bool, settled: impl Fn(&Self, ConnId) -> bool) -> Vec<ConnId> {
        if !visible {
            return Vec::new();
        }
        let mut due = std::mem::take(&mut self.due);
        let first_is_over = self.waiting.front().is_some_and(|(until, _)| *until <= now);
        if !self.moved && !first_is_over {
            return due;
        }
        self.moved = false;
        let waiting = std::mem::take(&mut self.waiting);
        let (over, still): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|(until, conn)| *until <= now || settled(self, *conn));
        self.waiting = still;
        due.extend(over.into_iter().map(|(_, conn)| conn));
        due
    }

    /// The connections to which a reply is held back.
    pub(super) fn owed(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.due.iter().copied().chain(self.waiting.iter().map(|(_, conn)| *conn))
    }

    pub(super) fn forget_connection(&mut self, conn: ConnId) {
        self.due.retain(|held| *held != conn);
        self.waiting.retain(|(_, held)| *held != conn);
    }

    /// When a held reply has to go at the latest. Not while the world may not be told: then the journal says when.
    pub(super) fn next_release(&self) -> Option<Now> {
        self.waiting.front().map(|(until, _)| *until).filter(|_| self.was_visible)
    }

    /// Everyone whose pod or host has this name, or who has it itself.
    pub(super) fn members_named(&self, name: &str) -> Vec<MemberId> {
        let host = |member: &MemberId| super::view::desc_of(member).addr;
        let pod_is = |member: &MemberId| self.pods.get(member).is_some_and(|pod| &**pod == name);
        self.machine
            .members()
            .map(|(member, _)| member)
            .filter(|member| &*member.name == name || &*host(member) == name || pod_is(member))
            .collect()
    }

    fn forget_announced(&mut self) -> bool {
        if self.announced.is_empty() {
            return false;
        }
        let before = self.announced.len();
        let here: BTreeSet<Arc<str>> = self
            .machine
            .members()
            .flat_map(|(member, _)| [self.pods.get(&member).cloned(), Some(super::view::desc_of(&member).addr)])
            .flatten()
            .collect();
        self.announced.retain(|pod| !here.contains(pod));
        self.announced.len() < before
    }
}
