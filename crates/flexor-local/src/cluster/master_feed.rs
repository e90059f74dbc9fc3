//! The cluster's end of the master feed: where a job's master is, and where its reports are stored.
//!
//! What is sent and what a proposal means is `flexor-control`'s.

use std::sync::Arc;
use std::time::Duration;

use flexor_client::{TokenSource, Upstream};
use flexor_control::{FeedMessage, MasterFeed, MasterUpdate, Moment, observed_by_master, read_proposal};
use flexor_engine::controller::ObservedPod;
use flexor_model::RoleKind;
use flexor_wire::master::v1 as wire;

use super::{Cluster, JobKey, JobRecord, State, now};

/// A master that counts this many steps in this time, and then reports nothing for as long, was stopped.
const MOST_SILENCE: Duration = Duration::from_secs(2);
const STEPS_OF_SILENCE: f64 = 10.0;

impl Cluster {
    /// Sends a job's master what the cluster observes, and notes what the job does now. Opens the feed once the master
    /// has an address, and closes it when the job is over and its master has gone.
    pub(super) fn feed_master(&self, key: &JobKey) {
        let mut state = self.lock();
        let pods = state.observed_pods(key);
        state.update_timeline(key, &pods);
        let Some(record) = state.jobs.get(key) else { return };
        let is_master = |pod: &ObservedPod| {
            record.job.roles.iter().any(|role| role.kind == RoleKind::Master && role.name == pod.role)
        };
        if record.status.phase.is_over() && !pods.iter().any(is_master) {
            state.feeds.remove(key);
            return;
        }
        let plans = record.observed_plans();
        let observed = observed_by_master(&record.job, &record.status, &pods, &plans, &self.machines());
        let token = TokenSource::File(record.token_file(self.state_dir()));
        if let Some(master) = state.master_of(key)
            && !state.feeds.contains_key(key)
            && let Ok(upstream) = Upstream::new(&master.to_string(), token)
        {
            state.feeds.insert(key.clone(), MasterFeed::open(upstream, self.on_message(key)));
        }
        if let Some(feed) = state.feeds.get(key) {
            feed.send(observed);
        }
    }

    /// The receiver of what a master's feed brings. It does not keep the cluster alive.
    fn on_message(&self, key: &JobKey) -> impl Fn(FeedMessage) + Send + Sync + 'static {
        let (cluster, key) = (Arc::downgrade(&self.0), key.clone());
        move |message| {
            let Some(cluster) = cluster.upgrade().map(Cluster) else { return };
            match message {
                FeedMessage::Proposal(proposal) => cluster.apply_proposal(&key, proposal),
                FeedMessage::Broken => cluster.note_silent_master(&key),
            }
        }
    }

    fn note_silent_master(&self, key: &JobKey) {
        let mut state = self.lock();
        let Some(record) = state.jobs.get_mut(key) else { return };
        let Some(heard_at) = record.master_heard_at else { return };
        // A master that counts records reports often; what it did not report was not learnt.
        let counts = record.training.as_ref().and_then(|training| training.records);
        let is_counting = counts.is_some_and(|records| !records.finished);
        record.master_silent_since.get_or_insert(if is_counting { heard_at } else { now() });
        let pods = state.observed_pods(key);
        state.update_timeline(key, &pods);
        drop(state);
        self.publish();
    }

    fn apply_proposal(&self, key: &JobKey, proposal: wire::Proposal) {
        let mut state = self.lock();
        if state.jobs.get(key).is_some_and(JobRecord::was_stopped) {
            // The master was stopped for a shorter time than it takes to notice.
            let pods = state.observed_pods(key);
            if let Some(record) = state.jobs.get_mut(key) {
                record.master_silent_since = record.master_heard_at;
            }
            state.update_timeline(key, &pods);
        }
        let Some(record) = state.jobs.get_mut(key) else { return };
        (record.master_heard_at, record.master_silent_since) = (Some(now()), None);
        match read_proposal(proposal, key.name.as_str(), record.training.as_ref(), now()) {
            Some(MasterUpdate::Training { status, events }) => {
                record.training = Some(*status);
                events.into_iter().for_each(|cause| state.record_event(key, None, cause));
            }
            Some(MasterUpdate::RunClosed(cause)) => {
                record.closed = Some(cause);
                self.notify();
            }
            Some(MasterUpdate::Released(pods)) => {
                record.released = pods;
                self.notify();
            }
            Some(MasterUpdate::Plan { number, plan }) => {
                state.add_automatic_plan(self.state_dir(), key, number, *plan);
                self.notify();
            }
            Some(MasterUpdate::PlanResult { number, message }) => {
                state.note_plan_result(self.state_dir(), key, number, message);
            }
            None => return,
        }
        let pods = state.observed_pods(key);
        state.update_timeline(key, &pods);
        drop(state);
        self.publish();
    }
}

impl JobRecord {
    /// Whether the master was silent for longer than its training is between two steps.
    fn was_stopped(&self) -> bool {
        let steps = self.training.as_ref().and_then(|training| training.steps_per_second).unwrap_or(0.0);
        let silence = self.master_heard_at.map_or(Duration::ZERO, |at| now().saturating_sub(at));
        steps >= STEPS_OF_SILENCE / MOST_SILENCE.as_secs_f64() && silence > MOST_SILENCE
    }
}

impl State {
    pub(super) fn update_timeline(&mut self, key: &JobKey, pods: &[ObservedPod]) {
        let full_since = self.full_since.filter(|_| self.has_unreported_end(key));
        let Some(record) = self.jobs.get_mut(key) else { return };
        let (training, now) = (record.training.as_ref(), now());
        let moment =
            Moment::of(&record.job, &record.status, pods, training, (record.master_silent_since.or(full_since), now));
        record.timeline.update(moment, record.created_at, record.status.phase, now);
    }
}
