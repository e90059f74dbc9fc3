//! What people look at: jobs, pods and events as they are now.

use std::collections::{BTreeMap, VecDeque};

use flexor_engine::controller::{JobStatus, PodPhase};
use flexor_model::UnixTime;
use serde_json::Value;

use super::{
    Cluster, ClusterEvent, JobKey, JobRecord, Options, PendingReason, PodRecord, Timeline, TrainingStatus, now,
};
use crate::objects::Objects;
use crate::pods::status::PodStatus;
use crate::state_dir::StateDir;

/// A job, to be looked at.
#[derive(Debug, Clone)]
pub struct JobView {
    /// Which.
    pub key: JobKey,
    /// Its dialect.
    pub dialect: String,
    /// The manifest that it comes from.
    pub manifest: Value,
    /// When it came.
    pub created_at: UnixTime,
    /// It is to go.
    pub deleting: bool,
    /// What the controller has written down.
    pub status: JobStatus,
    /// Where its master serves, if it has one.
    pub master: Option<std::net::SocketAddr>,
    /// How its training stands, once its master has said so.
    pub training: Option<TrainingStatus>,
    /// What it did with its time.
    pub timeline: Timeline,
}

/// A pod, to be looked at.
#[derive(Debug, Clone)]
pub struct PodView {
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// Whose it is.
    pub job: JobKey,
    /// Its role.
    pub role: String,
    /// How often its place was filled before.
    pub relaunches: u32,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How far it is.
    pub phase: PodPhase,
    /// It is to go.
    pub deleting: bool,
    /// When it was made.
    pub created_at: UnixTime,
    /// Its address.
    pub address: std::net::Ipv4Addr,
    /// What its parent says.
    pub status: Option<PodStatus>,
    /// Why nothing of it can run.
    pub trouble: Option<String>,
    /// Why it is not started yet.
    pub pending: Option<PendingReason>,
}

/// All that there is, for as long as it is looked at.
#[derive(Debug)]
pub struct Everything<'a> {
    /// All jobs, with their plans.
    pub jobs: &'a BTreeMap<JobKey, JobRecord>,
    /// All pods, by unique id.
    pub pods: &'a BTreeMap<String, PodRecord>,
    /// ConfigMaps, Secrets and PriorityClasses.
    pub objects: &'a Objects,
    /// What has happened, oldest first.
    pub events: &'a VecDeque<ClusterEvent>,
}

impl Cluster {
    /// All jobs.
    pub fn jobs(&self) -> Vec<JobView> {
        let state = self.lock();
        let view = |record: &JobRecord| JobView {
            key: record.key.clone(),
            dialect: record.job.dialect.clone(),
            manifest: record.manifest.clone(),
            created_at: record.created_at,
            deleting: record.deleting,
            status: record.status.clone(),
            master: state.master_of(&record.key),
            training: record.training.as_ref().map(|training| training.as_of(now())),
            timeline: record.timeline.clone(),
        };
        state.jobs.values().map(view).collect()
    }

    /// All pods, by name.
    pub fn pods(&self) -> Vec<PodView> {
        let state = self.lock();
        let mut pods: Vec<PodView> = state
            .pods
            .values()
            .map(|pod| PodView {
                name: pod.meta.desired.name.clone(),
                uid: pod.meta.uid.clone(),
                job: pod.meta.job.clone(),
                role: pod.meta.desired.role.to_string(),
                relaunches: pod.meta.desired.relaunches,
                labels: pod.meta.desired.labels.clone(),
                phase: pod.phase(),
                deleting: pod.is_deleting(),
                created_at: pod.meta.created_at,
                address: pod.meta.address,
                status: pod.status.clone(),
                trouble: pod.trouble.clone(),
                pending: pod.pending.clone(),
            })
            .collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods
    }

    /// Looks at everything at once. Nothing can happen meanwhile, so that whoever looks is to be brief.
    pub fn look<T>(&self, at: impl FnOnce(&Everything<'_>) -> T) -> T {
        let state = self.lock();
        at(&Everything { jobs: &state.jobs, pods: &state.pods, objects: &state.objects, events: state.events.all() })
    }

    /// How it is run.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// When this process took it over, since the Unix epoch.
    pub fn since(&self) -> UnixTime {
        self.0.since
    }

    /// Its folder.
    pub fn state_dir(&self) -> &StateDir {
        &self.0.options.state_dir
    }
}
