//! Views of the cluster's state: jobs, pods and events as they are now.

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

/// A copy of what a job shows.
#[derive(Debug, Clone)]
pub struct JobView {
    pub key: JobKey,
    pub dialect: String,
    pub manifest: Value,
    pub created_at: UnixTime,
    pub deleting: bool,
    pub status: JobStatus,
    /// The gRPC address of its master, if it has one.
    pub master: Option<std::net::SocketAddr>,
    /// As its master reported it last.
    pub training: Option<TrainingStatus>,
    pub timeline: Timeline,
}

/// A copy of what a pod shows.
#[derive(Debug, Clone)]
pub struct PodView {
    pub name: String,
    pub uid: String,
    pub job: JobKey,
    pub role: String,
    /// How often its slot was filled before.
    pub relaunches: u32,
    pub labels: BTreeMap<String, String>,
    pub phase: PodPhase,
    pub deleting: bool,
    pub created_at: UnixTime,
    pub address: std::net::Ipv4Addr,
    /// The last status that its supervisor wrote.
    pub status: Option<PodStatus>,
    /// Why its containers can never be created.
    pub trouble: Option<String>,
    /// Why it is not started yet.
    pub pending: Option<PendingReason>,
}

/// The whole state of the cluster, locked while it is read.
#[derive(Debug)]
pub struct ClusterView<'a> {
    /// With their plans.
    pub jobs: &'a BTreeMap<JobKey, JobRecord>,
    /// By uid.
    pub pods: &'a BTreeMap<String, PodRecord>,
    /// ConfigMaps, Secrets and PriorityClasses.
    pub objects: &'a Objects,
    /// Oldest first.
    pub events: &'a VecDeque<ClusterEvent>,
}

impl Cluster {
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

    /// All pods, sorted by name.
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

    /// Reads everything at one moment. The cluster is locked meanwhile, so `read` has to be brief.
    pub fn read<T>(&self, read: impl FnOnce(&ClusterView<'_>) -> T) -> T {
        let state = self.lock();
        read(&ClusterView { jobs: &state.jobs, pods: &state.pods, objects: &state.objects, events: state.events.all() })
    }

    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// When this process took the cluster over.
    pub fn since(&self) -> UnixTime {
        self.0.since
    }

    pub fn state_dir(&self) -> &StateDir {
        &self.0.options.state_dir
    }
}
