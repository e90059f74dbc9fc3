//! The cluster's end of the master feed: where a job's master is, and where its reports are stored.
//!
//! What is sent and what a proposal means is `flexor-control`'s.

use std::sync::Arc;

use flexor_client::{TokenSource, Upstream};
use flexor_control::{MasterFeed, MasterUpdate, Moment, observed_by_master, read_proposal};
use flexor_engine::controller::ObservedPod;
use flexor_model::RoleKind;
use flexor_wire::master::v1 as wire;

use super::{Cluster, JobKey, State, now};

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
        let observed = observed_by_master(&record.job, &record.status, &pods);
        let token = TokenSource::File(record.token_file(self.state_dir()));
        if let Some(master) = state.master_of(key)
            && !state.feeds.contains_key(key)
            && let Ok(upstream) = Upstream::new(&master.to_string(), token)
        {
            state.feeds.insert(key.clone(), MasterFeed::open(upstream, self.on_proposal(key)));
        }
        if let Some(feed) = state.feeds.get(key) {
            feed.send(observed);
        }
    }

    /// The receiver of a master's proposals. It does not keep the cluster alive.
    fn on_proposal(&self, key: &JobKey) -> impl Fn(wire::Proposal) + Send + Sync + 'static {
        let (cluster, key) = (Arc::downgrade(&self.0), key.clone());
        move |proposal| {
            if let Some(cluster) = cluster.upgrade() {
                Cluster(cluster).apply_proposal(&key, proposal);
            }
        }
    }

    fn apply_proposal(&self, key: &JobKey, proposal: wire::Proposal) {
        let mut state = self.lock();
        let Some(record) = state.jobs.get_mut(key) else { return };
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
            None => return,
        }
        let pods = state.observed_pods(key);
        state.update_timeline(key, &pods);
        drop(state);
        self.publish();
    }
}

impl State {
    fn update_timeline(&mut self, key: &JobKey, pods: &[ObservedPod]) {
        let Some(record) = self.jobs.get_mut(key) else { return };
        let moment = Moment::of(&record.job, &record.status, pods, record.training.as_ref());
        record.timeline.update(moment, record.created_at, record.status.phase, now());
    }
}
