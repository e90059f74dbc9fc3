//! The TCPStore clients of one run: their connections, the view of the world, and the replies that are held back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use flexor_engine::rendezvous::{Fact, MemberId, MemberState, Rendezvous};
use flexor_model::Round;

use super::view::WorldView;
use crate::service::{ConnId, Now};

/// How long the reply to a waiting agent is held for a change. Agents poll once a second; a held reply reaches them as
/// soon as the round completes.
const HOLD: Duration = Duration::from_secs(2);

/// The clients of a run.
#[derive(Debug, Default)]
pub(super) struct RunClients {
    pub(super) view: Option<WorldView>,
    /// The connection that speaks for a member, if there is one.
    pub(super) connections: BTreeMap<MemberId, ConnId>,
    pub(super) exits: ExitBarrier,
    /// The world may not be published yet, because it is not durable.
    is_hidden: bool,
    waiting: VecDeque<(Now, ConnId)>,
    due: Vec<ConnId>,
    /// The state of a waiting member may have changed since held replies were last examined.
    has_news: bool,
}

/// The members that have reached the exit barrier of a round.
#[derive(Debug, Default)]
pub(super) struct ExitBarrier {
    pub(super) round: Round,
    pub(super) members: BTreeSet<MemberId>,
}

impl RunClients {
    /// Takes note of facts: updates the view of the world, and has held replies examined if need be.
    pub(super) fn observe(&mut self, machine: &Rendezvous, facts: &[Fact]) {
        if facts.iter().any(|fact| matches!(fact, Fact::Completed { .. })) {
            self.refresh_view(machine);
        }
        self.has_news |= facts.iter().any(changes_waiting_members);
    }

    pub(super) fn refresh_view(&mut self, machine: &Rendezvous) {
        let max = machine.settings().max;
        self.view = machine.world().map(|world| WorldView::new(world, max));
    }

    /// Owes a connection a reply. A member that waits is answered after a change, at the latest after [`HOLD`]; all others
    /// are answered at once.
    pub(super) fn owe(&mut self, conn: ConnId, state: Option<MemberState>, now: Now) {
        match state {
            Some(MemberState::Joined | MemberState::Standby) => self.waiting.push_back((now + HOLD, conn)),
            Some(MemberState::InWorld | MemberState::Away) | None => self.due.push(conn),
        }
    }

    /// Takes the connections to be answered. `is_settled` says whether the member of a connection no longer waits.
    pub(super) fn take_due(&mut self, now: Now, is_visible: bool, is_settled: impl Fn(ConnId) -> bool) -> Vec<ConnId> {
        self.is_hidden = !is_visible;
        if !is_visible {
            return Vec::new();
        }
        let mut due = std::mem::take(&mut self.due);
        let has_expired = self.waiting.front().is_some_and(|(until, _)| *until <= now);
        if !self.has_news && !has_expired {
            return due;
        }
        self.has_news = false;
        let waiting = std::mem::take(&mut self.waiting);
        let (over, still): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|(until, conn)| *until <= now || is_settled(*conn));
        self.waiting = still;
        due.extend(over.into_iter().map(|(_, conn)| conn));
        due
    }

    /// The connections to which a reply is owed.
    pub(super) fn owed(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.due.iter().copied().chain(self.waiting.iter().map(|(_, conn)| *conn))
    }

    pub(super) fn forget_connection(&mut self, conn: ConnId) {
        self.due.retain(|owed| *owed != conn);
        self.waiting.retain(|(_, owed)| *owed != conn);
    }

    /// When a held reply has to be sent at the latest. None while the world is hidden: then the journal's progress
    /// releases it.
    pub(super) fn next_release(&self) -> Option<Now> {
        self.waiting.front().map(|(until, _)| *until).filter(|_| !self.is_hidden)
    }
}

/// Whether a fact can change the state of members that wait, other than those that it names and that speak right now.
fn changes_waiting_members(fact: &Fact) -> bool {
    match fact {
        Fact::Completed { .. } | Fact::Closed { .. } | Fact::Reopened { .. } | Fact::Dropped { .. } => true,
        Fact::Joined { .. }
        | Fact::Standby { .. }
        | Fact::ProcessesChanged { .. }
        | Fact::Left { .. }
        | Fact::Finished { .. }
        | Fact::Expected { .. } => false,
    }
}
