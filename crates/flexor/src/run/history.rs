//! What has happened since `flexor run` began, gathered while it happens: the cluster itself remembers only the last of
//! it. The plain lines, the summary and the report all tell from this.

mod samples;

use std::collections::BTreeMap;
use std::time::SystemTime;

use flexor_local::cluster::{Cluster, ClusterEvent, Everything, JobKey};
use flexor_model::UnixTime;

pub use self::samples::Sample;
use self::samples::Samples;

/// A report of more events would be read by nobody.
const MOST_EVENTS: usize = 100_000;

/// What has happened.
pub struct History {
    /// When `flexor run` began, since the Unix epoch.
    pub began_at: UnixTime,
    /// The jobs that it was asked to run; others may come and go beside them.
    pub own: Vec<JobKey>,
    events: Vec<ClusterEvent>,
    /// The number of the last that was seen.
    last: u64,
    /// How many of the newest came with the last look.
    fresh: usize,
    samples: BTreeMap<JobKey, Samples>,
}

impl History {
    /// Begins, with what the cluster remembers of before.
    pub fn begin(cluster: &Cluster, began_at: UnixTime) -> Self {
        let mut history =
            Self { began_at, own: Vec::new(), events: Vec::new(), last: 0, fresh: 0, samples: BTreeMap::new() };
        history.look(cluster, began_at);
        history.fresh = 0;
        history
    }

    /// Takes note of what is new.
    pub fn look(&mut self, cluster: &Cluster, now: UnixTime) {
        cluster.read(|all| self.take(all, now));
    }

    fn take(&mut self, all: &Everything<'_>, now: UnixTime) {
        let is_new = |event: &&ClusterEvent| event.number > self.last;
        let mut new: Vec<ClusterEvent> = all.events.iter().rev().take_while(is_new).cloned().collect();
        new.reverse();
        self.last = new.last().map_or(self.last, |event| event.number);
        self.fresh = new.len();
        self.events.extend(new);
        self.events.drain(..self.events.len().saturating_sub(MOST_EVENTS));
        for (key, record) in all.jobs {
            let Some(training) = &record.training else { continue };
            let is_over = record.status.phase.is_over();
            match self.samples.get_mut(key) {
                Some(samples) if is_over => samples.end(training, now),
                Some(samples) => samples.take(training, now),
                None if is_over => {}
                None => self.samples.entry(key.clone()).or_default().take(training, now),
            }
        }
    }

    /// What was new with the last look.
    pub fn fresh(&self) -> &[ClusterEvent] {
        &self.events[self.events.len() - self.fresh.min(self.events.len())..]
    }

    /// Everything, oldest first.
    pub fn events(&self) -> &[ClusterEvent] {
        &self.events
    }

    /// How a job's training stood, now and then.
    pub fn samples(&self, job: &JobKey) -> &[Sample] {
        self.samples.get(job).map(Samples::all).unwrap_or_default()
    }
}

/// The time, as the cluster tells it too.
pub fn now() -> UnixTime {
    SystemTime::now().into()
}
