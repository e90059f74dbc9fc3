//! Events and samples since the start of `flexor run`, for plain lines, summary and report. The cluster itself keeps only
//! the latest events and the current status.

mod samples;

use std::collections::BTreeMap;
use std::time::SystemTime;

use flexor_local::cluster::{Cluster, ClusterEvent, ClusterView, JobKey};
use flexor_model::UnixTime;

pub use self::samples::Sample;
use self::samples::Samples;

/// Largest number of events to keep; older ones are dropped.
const MOST_EVENTS: usize = 100_000;

pub struct History {
    /// Start of `flexor run`, since the Unix epoch.
    pub began_at: UnixTime,
    /// The jobs of the command line. Other terminals may apply more.
    pub own: Vec<JobKey>,
    events: Vec<ClusterEvent>,
    /// Number of the latest event.
    last: u64,
    /// Number of events that the last update added.
    fresh: usize,
    samples: BTreeMap<JobKey, Samples>,
}

impl History {
    /// Starts with the events that the cluster has kept.
    pub fn begin(cluster: &Cluster, began_at: UnixTime) -> Self {
        let mut history =
            Self { began_at, own: Vec::new(), events: Vec::new(), last: 0, fresh: 0, samples: BTreeMap::new() };
        history.update(cluster, began_at);
        history.fresh = 0;
        history
    }

    /// Adds new events, and samples that are due.
    pub fn update(&mut self, cluster: &Cluster, now: UnixTime) {
        cluster.read(|all| self.add(all, now));
    }

    fn add(&mut self, all: &ClusterView<'_>, now: UnixTime) {
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

    /// The events that the last update added.
    pub fn fresh(&self) -> &[ClusterEvent] {
        &self.events[self.events.len() - self.fresh.min(self.events.len())..]
    }

    /// All events, oldest first.
    pub fn events(&self) -> &[ClusterEvent] {
        &self.events
    }

    /// The samples of a job, oldest first.
    pub fn samples(&self, job: &JobKey) -> &[Sample] {
        self.samples.get(job).map(Samples::all).unwrap_or_default()
    }
}

/// The time since the Unix epoch, on the clock that the cluster uses.
pub fn now() -> UnixTime {
    SystemTime::now().into()
}
