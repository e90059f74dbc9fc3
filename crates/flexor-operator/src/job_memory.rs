//! What the operator knows of a job between two passes, beyond its caches.
//!
//! Caches lag behind what this process did itself. The memory bridges that: pods that were created and are not listed
//! yet, deletions that are not visible yet, the status that was written last. All of it may be lost with the process.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use flexor_dialects::manifest::Subject;
use flexor_dialects::{Dialect, Finding, JobCondition, Kind};
use flexor_engine::controller::{ExecutorState, JobStatus, PlanStatus, StatusError};
use flexor_model::{Job, UnixTime};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

#[derive(Debug, Default)]
pub(crate) struct JobMemory {
    /// The job as its last generation describes it.
    job: Option<(i64, Arc<Job>)>,
    /// The warnings of that generation that were not recorded yet.
    pub(crate) warnings: Vec<Finding>,
    /// The status that was read or written last, and the object's version then.
    pub(crate) status: JobStatus,
    pub(crate) conditions: Vec<JobCondition>,
    pub(crate) shown: Value,
    pub(crate) resource_version: String,
    pub(crate) last_write: Option<UnixTime>,
    /// Pods that were created and are not listed yet, and creations that were refused.
    pub(crate) executor: ExecutorState,
    /// Uids of pods whose deletion was requested and may not be visible yet.
    pub(crate) deleted_pods: HashSet<String>,
    /// Services that were created or deleted, where the cache does not show it yet.
    pub(crate) services: BTreeMap<String, ServiceChange>,
    /// Statuses of plans that were written and may not be visible yet, with the plan's version then.
    pub(crate) plans: HashMap<String, (String, PlanStatus)>,
    /// The job was deleted by this process.
    pub(crate) is_deleted: bool,
    /// The last complaint about the job's description or status that was recorded.
    pub(crate) complaint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceChange {
    Created,
    Deleted,
}

impl JobMemory {
    /// The job that an object describes. Parsed once per generation.
    pub(crate) fn read_job(&mut self, kind: &Kind, object: &DynamicObject) -> Result<Arc<Job>, Finding> {
        let generation = object.metadata.generation.unwrap_or_default();
        if let Some((known, job)) = &self.job
            && *known == generation
        {
            return Ok(Arc::clone(job));
        }
        let json = serde_json::to_value(object).unwrap_or_default();
        let reading = kind.read(&json)?;
        let Subject::Job(job) = reading.subject else { unreachable!("a kind of jobs describes jobs") };
        let job = Arc::new(job);
        self.warnings = reading.findings;
        self.job = Some((generation, Arc::clone(&job)));
        Ok(job)
    }

    /// Takes over the object's status, unless this process has written a newer one.
    pub(crate) fn read_status(&mut self, dialect: &Dialect, object: &DynamicObject) -> Result<(), StatusError> {
        let version = object.resource_version().unwrap_or_default();
        if is_older(&version, &self.resource_version) {
            return Ok(());
        }
        let status = object.data.get("status").cloned().unwrap_or_default();
        if self.resource_version.is_empty() || status != self.shown {
            let written = dialect.read_status(&status)?;
            self.status = written.status.unwrap_or_default();
            self.conditions = written.conditions;
            self.shown = status;
        }
        self.resource_version = version;
        Ok(())
    }

    /// Drops what the caches show by now.
    pub(crate) fn catch_up(&mut self, pods: &BTreeSet<&str>, uids: &HashSet<&str>, services: &BTreeSet<String>) {
        self.executor.outstanding.retain(|pod| !pods.contains(pod.as_str()));
        self.executor.refused.retain(|pod, _| !pods.contains(pod.as_str()));
        self.deleted_pods.retain(|uid| uids.contains(uid.as_str()));
        self.services.retain(|name, change| (*change == ServiceChange::Created) != services.contains(name));
    }
}

/// Whether an object's version lies before another. Versions of one object are numbers that grow.
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        (Ok(_) | Err(_), _) => false,
    }
}
