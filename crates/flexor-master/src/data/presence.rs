//! Which workers are here, and since when the others are away.
//!
//! A worker with a session is here. Whoever has lost it has a moment to come back, a worker of a master before this one
//! a longer one: it may wait for the network, or for its own launcher.

use std::collections::BTreeMap;
use std::time::Duration;

use flexor_engine::shards::WorkerId;

/// What a worker has whose session broke. Whoever started it says sooner what has become of it.
const AFTER_SESSION: Duration = Duration::from_secs(5);
/// What a worker has that a master before this one knew.
const AFTER_RESTART: Duration = Duration::from_secs(60);

/// Who has a session, and until when those that are away have to come back.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// Two for a moment, when one breaks and the next has come.
    sessions: BTreeMap<WorkerId, u32>,
    away: BTreeMap<WorkerId, Duration>,
}

impl Presence {
    /// A master before this one knew it.
    pub(super) fn expect(&mut self, worker: WorkerId, now: Duration) {
        self.away.insert(worker, now + AFTER_RESTART);
    }

    /// It is here.
    pub(super) fn heard(&mut self, worker: &WorkerId) {
        self.away.remove(worker);
    }

    /// It has a session.
    pub(super) fn session_began(&mut self, worker: &WorkerId) {
        *self.sessions.entry(worker.clone()).or_default() += 1;
        self.heard(worker);
    }

    /// One of its sessions has ended.
    pub(super) fn session_ended(&mut self, worker: &WorkerId, now: Duration) {
        let left = self.sessions.get_mut(worker).map_or(0, |sessions| {
            *sessions = sessions.saturating_sub(1);
            *sessions
        });
        if left == 0 {
            self.sessions.remove(worker);
            self.away.insert(worker.clone(), now + AFTER_SESSION);
        }
    }

    /// It need not be waited for.
    pub(super) fn forget(&mut self, worker: &WorkerId) {
        self.away.remove(worker);
    }

    /// Those that did not come back.
    pub(super) fn given_up(&mut self, now: Duration) -> Vec<WorkerId> {
        let late: Vec<WorkerId> =
            self.away.iter().filter(|(_, until)| **until <= now).map(|(worker, _)| worker.clone()).collect();
        self.away.retain(|_, until| *until > now);
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_ends_after_the_next_has_begun_makes_nobody_away() {
        let worker = WorkerId::new("a", 0);
        let mut presence = Presence::default();
        presence.session_began(&worker);
        presence.session_began(&worker);
        presence.session_ended(&worker, Duration::ZERO);
        assert_eq!(presence.given_up(Duration::MAX), []);
        presence.session_ended(&worker, Duration::ZERO);
        assert_eq!(presence.given_up(Duration::from_secs(4)), []);
        assert_eq!(presence.given_up(AFTER_SESSION), [worker]);
        assert_eq!(presence.given_up(Duration::MAX), [], "once");
    }
}
