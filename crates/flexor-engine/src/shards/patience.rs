//! How long a worker may go without progress before what it holds is taken back.
//!
//! Three times what its own batches take, and not less than ten seconds. The clock stands still while the master is
//! away, and for what is in doubt.

use std::time::Duration;

use flexor_model::Reason;

use super::grant::{Grant, GrantId};
use super::{Because, Ending, Fact, Shards};

/// How far apart two calls may be before the owner counts as having been away. Owners tick at least every second.
const ABSENCE: Duration = Duration::from_secs(3);
const TIMES: u32 = 3;

impl Shards {
    /// When the next [`Shards::tick`] can change something.
    pub fn next_deadline(&self) -> Option<Duration> {
        (self.check_at < Duration::MAX).then_some(self.check_at)
    }

    /// Moves the time on. Time that runs backwards stands still; a leap forward is an absence of the owner, during which
    /// nobody could acknowledge anything.
    pub(super) fn advance(&mut self, now: Duration) {
        let gap = now.saturating_sub(self.now);
        if gap > ABSENCE && self.now > Duration::ZERO {
            for held in self.grants.values_mut() {
                held.progress_at = held.progress_at.saturating_add(gap);
            }
            for worker in self.workers.values_mut() {
                worker.pace.busy_since = worker.pace.busy_since.map(|since| since + gap);
            }
            self.check_at = self.check_at.saturating_add(gap);
        }
        self.now = self.now.max(now);
    }

    /// Looks at a grant no later than its patience ends.
    pub(super) fn watch(&mut self, grant: GrantId) {
        if let Some(deadline) = self.grants.get(&grant).and_then(|held| self.deadline(held)) {
            self.check_at = self.check_at.min(deadline);
        }
    }

    pub(super) fn take_back_the_stuck(&mut self, facts: &mut Vec<Fact>) {
        if self.now < self.check_at {
            return;
        }
        let mut stuck = Vec::new();
        let mut next = Duration::MAX;
        for (grant, held) in &self.grants {
            match self.deadline(held) {
                Some(deadline) if deadline <= self.now => stuck.push(*grant),
                Some(deadline) => next = next.min(deadline),
                None => {}
            }
        }
        self.check_at = next;
        for grant in stuck {
            let held = &self.grants[&grant];
            let waited = self.now.saturating_sub(held.progress_at);
            let detail = format!("{} made no progress for {} s", held.worker, waited.as_secs());
            let because = Because::new(Reason::LeaseExpired, detail);
            self.take_grant(grant, Ending::Lost, 0, &because, facts);
        }
    }

    /// Until when a grant must make progress. One that nothing is leased of can wait.
    fn deadline(&self, held: &Grant) -> Option<Duration> {
        if held.in_doubt || held.leased.is_empty() {
            return None;
        }
        let own = self.workers.get(&held.worker.name).and_then(|worker| worker.pace.batch_time);
        let batch_time = own.or_else(|| self.workers.values().filter_map(|worker| worker.pace.batch_time).max());
        let batches = u32::try_from(held.leased.count()).unwrap_or(u32::MAX);
        let patience = batch_time.map_or(self.settings.first_patience, |time| {
            time.saturating_mul(TIMES).saturating_mul(batches).max(self.settings.least_patience)
        });
        Some(held.progress_at.saturating_add(patience))
    }
}
