//! How long a worker may go without progress before what it holds is taken back, and how long one is waited for whose
//! session broke.
//!
//! Three times what its own batches take, and not less than ten seconds, since it last acknowledged anything. The clock
//! stands still while the master is away, and for what is in doubt.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;

use super::grant::{Grant, GrantId};
use super::{Cause, Ending, Fact, Settings, Shards, WorkerId};

const TIMES: u32 = 3;
/// What a worker has whose session broke. Whoever started it says sooner what has become of it.
const AFTER_SESSION: Duration = Duration::from_secs(5);
/// What a worker has that a master before this one knew: it may wait for the network, or for its own launcher.
pub(super) const AFTER_RESTART: Duration = Duration::from_secs(60);
/// More workers than this are not remembered when they hold nothing and are silent for a while.
const MOST_WORKERS: usize = 16_384;
const IDLE: Duration = Duration::from_secs(600);

impl Shards {
    /// A worker has a session.
    pub fn is_here(&mut self, worker: &WorkerId) {
        if let Some(known) = self.life_of(worker) {
            known.away_until = None;
        }
    }

    /// The last session of a worker broke: it has a moment to come back.
    pub fn is_away(&mut self, worker: &WorkerId, now: Duration) {
        self.clock.advance(now);
        let until = self.clock.now() + AFTER_SESSION;
        if let Some(known) = self.life_of(worker) {
            known.away_until = Some(until);
        }
    }

    /// A worker has acknowledged so many batches of a grant.
    pub(super) fn make_progress(
        &mut self,
        worker: &WorkerId,
        grant: GrantId,
        dataset: &Arc<str>,
        batches: u64,
        facts: &mut Vec<Fact>,
    ) {
        let now = self.clock.now();
        if let Some(held) = self.grants.get_mut(&grant) {
            held.progress_at = now;
        }
        let idle = !self.holds_leases(worker);
        let Some(known) = self.life_of(worker).filter(|_| batches > 0) else { return };
        known.pace.acknowledged(batches, idle, now);
        let batch_time = known.pace.batch_time;
        // Who holds something and has no pace of its own is judged by those of others.
        self.check_at = self.check_at.min(now + self.settings.least_patience);
        let slowest = self.datasets.get(dataset).and_then(|dataset| dataset.batch_time);
        if let Some(batch_time) = batch_time
            && slowest.is_none_or(|slowest| batch_time > 2 * slowest)
        {
            self.decide(Fact::Paced { dataset: Arc::clone(dataset), batch_time }, facts);
        }
    }

    /// Looks at a grant no later than its patience ends.
    pub(super) fn watch(&mut self, grant: GrantId) {
        if let Some(deadline) = self.grants.get(&grant).and_then(|held| self.deadline(held)) {
            self.check_at = self.check_at.min(deadline);
        }
    }

    /// Those whose session broke and who did not come back are lost.
    pub(super) fn give_up_the_absent(&mut self, facts: &mut Vec<Fact>) {
        let late =
            self.workers.iter().filter(|(_, worker)| worker.away_until.is_some_and(|until| until <= self.clock.now()));
        let late: Vec<WorkerId> =
            late.map(|(name, worker)| WorkerId::new(Arc::clone(name), worker.incarnation)).collect();
        for worker in late {
            self.end(&worker, Ending::Lost, facts);
        }
    }

    pub(super) fn take_back_the_stuck(&mut self, facts: &mut Vec<Fact>) {
        if self.clock.now() < self.check_at {
            return;
        }
        let mut stuck = Vec::new();
        let mut next = Duration::MAX;
        for (grant, held) in &self.grants {
            match self.deadline(held) {
                Some(deadline) if deadline <= self.clock.now() => stuck.push(*grant),
                Some(deadline) => next = next.min(deadline),
                None => {}
            }
        }
        self.check_at = next;
        for grant in stuck {
            let held = &self.grants[&grant];
            let (worker, batches) = (held.worker.clone(), held.leased.count());
            let since = self.workers.get(&worker.name).map_or(held.progress_at, |known| known.pace.progress_at);
            let waited = self.clock.now().saturating_sub(since.min(held.progress_at));
            let detail = format!("{worker} made no progress with lease {grant} for {} s", waited.as_secs());
            self.take_grant(grant, Ending::Lost, 0, &Cause::new(Reason::LeaseExpired, detail), facts);
            // It may only be slower than it was: the next time it has longer.
            if let Some(known) = self.life_of(&worker) {
                known.pace.was_stuck(waited, batches);
            }
        }
    }

    /// Those that hold nothing and have not been heard for long are forgotten when there are many.
    pub(super) fn forget_the_idle(&mut self) {
        if self.workers.len() > MOST_WORKERS {
            let before = self.clock.now().saturating_sub(IDLE);
            self.workers.retain(|_, worker| !worker.grants.is_empty() || worker.heard_at >= before);
        }
    }

    /// Until when a grant must make progress: its worker anything at all, and the grant itself at some time. One that
    /// nothing is leased of can wait.
    fn deadline(&self, held: &Grant) -> Option<Duration> {
        if held.in_doubt || held.leased.is_empty() {
            return None;
        }
        let worker = self.workers.get(&held.worker.name);
        let own = worker.and_then(|worker| worker.pace.batch_time);
        let batch_time = own.or_else(|| self.datasets.get(&held.dataset).and_then(|dataset| dataset.batch_time));
        let batches = u32::try_from(held.leased.count()).unwrap_or(u32::MAX);
        let Settings { least_patience, first_patience, .. } = self.settings;
        let patience = batch_time
            .map_or(first_patience, |time| time.saturating_mul(TIMES).saturating_mul(batches).max(least_patience));
        let of_worker = worker.map_or(held.progress_at, |worker| worker.pace.progress_at.max(held.progress_at));
        let of_grant = held.progress_at.saturating_add(patience.max(first_patience));
        Some(of_worker.saturating_add(patience).min(of_grant))
    }
}
