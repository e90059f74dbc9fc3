//! Lease timeouts, and the time a worker has to reconnect.
//!
//! A lease expires when its worker acknowledges nothing for three times its batch time, and at least ten seconds. The
//! clock stands still while the master is away. Grants in doubt do not time out.

use std::sync::Arc;
use std::time::Duration;

use flexor_model::Reason;

use super::grant::{Grant, GrantId};
use super::{Cause, Fact, Ledger, Settings, WorkerEnd, WorkerId};

const TIMEOUT_BATCH_TIMES: u32 = 3;
/// A worker with a broken session is lost after this. Its launcher usually reports its end sooner.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A worker that an earlier master knew is lost after this. It may wait for the network or for its launcher.
pub(super) const RESUME_TIMEOUT: Duration = Duration::from_secs(60);
/// With more workers than this, those that are idle for [`IDLE_TIMEOUT`] are forgotten.
const MOST_WORKERS: usize = 16_384;
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

impl Ledger {
    pub fn session_opened(&mut self, worker: &WorkerId) {
        if let Some(known) = self.worker_mut(worker) {
            known.away_until = None;
        }
    }

    /// The last session of a worker ended: the worker is lost unless it reconnects in time.
    pub fn session_closed(&mut self, worker: &WorkerId, now: Duration) {
        self.clock.advance(now);
        let until = self.clock.now() + RECONNECT_TIMEOUT;
        if let Some(known) = self.worker_mut(worker) {
            known.away_until = Some(until);
        }
    }

    /// Records progress after an acknowledgement.
    pub(super) fn record_progress(
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
        let Some(known) = self.worker_mut(worker).filter(|_| batches > 0) else { return };
        known.pace.record_acknowledgement(batches, idle, now);
        let batch_time = known.pace.batch_time;
        // Workers without a batch time of their own are judged by the dataset's.
        self.check_at = self.check_at.min(now + self.settings.min_lease_timeout);
        let slowest = self.datasets.get(dataset).and_then(|dataset| dataset.batch_time);
        if let Some(batch_time) = batch_time
            && slowest.is_none_or(|slowest| batch_time > 2 * slowest)
        {
            self.decide(Fact::BatchTimeMeasured { dataset: Arc::clone(dataset), batch_time }, facts);
        }
    }

    /// Checks a grant no later than its timeout.
    pub(super) fn schedule_check(&mut self, grant: GrantId) {
        if let Some(deadline) = self.grants.get(&grant).and_then(|held| self.deadline(held)) {
            self.check_at = self.check_at.min(deadline);
        }
    }

    /// Workers that did not reconnect in time are lost.
    pub(super) fn remove_absent_workers(&mut self, facts: &mut Vec<Fact>) {
        let late =
            self.workers.iter().filter(|(_, worker)| worker.away_until.is_some_and(|until| until <= self.clock.now()));
        let late: Vec<WorkerId> =
            late.map(|(name, worker)| WorkerId::new(Arc::clone(name), worker.incarnation)).collect();
        for worker in late {
            self.end(&worker, WorkerEnd::Lost, facts);
        }
    }

    pub(super) fn expire_leases(&mut self, facts: &mut Vec<Fact>) {
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
            self.return_grant(grant, WorkerEnd::Lost, 0, &Cause::new(Reason::LeaseExpired, detail), facts);
            // The worker may only be slow, so its next timeout is longer.
            if let Some(known) = self.worker_mut(&worker) {
                known.pace.record_expiry(waited, batches);
            }
        }
    }

    /// Forgets idle workers that were silent for long, when there are many workers.
    pub(super) fn forget_idle_workers(&mut self) {
        if self.workers.len() > MOST_WORKERS {
            let before = self.clock.now().saturating_sub(IDLE_TIMEOUT);
            self.workers.retain(|_, worker| !worker.grants.is_empty() || worker.heard_at >= before);
        }
    }

    /// The timeout of a grant: its worker must acknowledge anything within the lease timeout, and the grant itself must
    /// progress within the longer initial one. A grant without leased batches has no timeout.
    fn deadline(&self, held: &Grant) -> Option<Duration> {
        if held.in_doubt || held.leased.is_empty() {
            return None;
        }
        let worker = self.workers.get(&held.worker.name);
        let own = worker.and_then(|worker| worker.pace.batch_time);
        let batch_time = own.or_else(|| self.datasets.get(&held.dataset).and_then(|dataset| dataset.batch_time));
        let batches = u32::try_from(held.leased.count()).unwrap_or(u32::MAX);
        let Settings { min_lease_timeout, initial_lease_timeout, .. } = self.settings;
        let timeout = batch_time.map_or(initial_lease_timeout, |time| {
            time.saturating_mul(TIMEOUT_BATCH_TIMES).saturating_mul(batches).max(min_lease_timeout)
        });
        let of_worker = worker.map_or(held.progress_at, |worker| worker.pace.progress_at.max(held.progress_at));
        let of_grant = held.progress_at.saturating_add(timeout.max(initial_lease_timeout));
        Some(of_worker.saturating_add(timeout).min(of_grant))
    }
}
