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

/// A job as a generation of its object describes it.
pub(crate) type ReadJob = (i64, Arc<Job>);

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
    /// A write found that the object has changed since; the cache does not show that yet.
    pub(crate) is_outdated: bool,
    /// Since when the status that is shown to people is not what it should be.
    pub(crate) differs_since: Option<UnixTime>,
    /// Pods that were created and are not listed yet, and creations that were refused.
    pub(crate) executor: ExecutorState,
    /// Uids of pods whose deletion was requested and may not be visible yet.
    pub(crate) deleted_pods: HashSet<String>,
    /// Uids of those that were removed by force.
    pub(crate) forced_pods: HashSet<String>,
    /// Services that were created or deleted, where the cache does not show it yet.
    pub(crate) services: BTreeMap<String, ServiceChange>,
    /// Statuses of plans that were written and may not be visible yet, with the plan's version then.
    pub(crate) plans: HashMap<String, (String, PlanStatus)>,
    /// The Secret with the job's token exists.
    pub(crate) has_token: bool,
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
    /// The job that an object describes, with its generation. Parsed once per generation.
    ///
    /// A description that cannot be read is returned as a finding, beside the job as the last readable one described it.
    pub(crate) fn read_job(
        &mut self,
        kind: &Kind,
        object: &DynamicObject,
    ) -> Result<(ReadJob, Option<Finding>), Finding> {
        let generation = object.metadata.generation.unwrap_or_default();
        if let Some((known, job)) = &self.job
            && *known == generation
        {
            return Ok(((*known, Arc::clone(job)), None));
        }
        let json = serde_json::to_value(object).unwrap_or_default();
        let reading = match kind.read(&json) {
            Ok(reading) => reading,
            Err(finding) => {
                let Some(last) = self.job.clone() else { return Err(finding) };
                return Ok((last, Some(finding)));
            }
        };
        let Subject::Job(job) = reading.subject else { unreachable!("a kind of jobs describes jobs") };
        let job = Arc::new(job);
        self.warnings = reading.findings;
        self.job = Some((generation, Arc::clone(&job)));
        Ok(((generation, job), None))
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
        if version != self.resource_version {
            (self.resource_version, self.is_outdated) = (version, false);
        }
        Ok(())
    }

    /// Drops what the caches show by now.
    pub(crate) fn catch_up(&mut self, pods: &BTreeSet<&str>, uids: &HashSet<&str>, services: &BTreeSet<String>) {
        self.executor.outstanding.retain(|pod| !pods.contains(pod.as_str()));
        self.executor.refused.retain(|pod, _| !pods.contains(pod.as_str()));
        self.executor.refused_services.retain(|service, _| !services.contains(service));
        self.deleted_pods.retain(|uid| uids.contains(uid.as_str()));
        self.forced_pods.retain(|uid| uids.contains(uid.as_str()));
        self.services.retain(|name, change| (*change == ServiceChange::Created) != services.contains(name));
    }

    /// Drops the statuses of plans that the cache shows by now, and of plans that are gone. Takes the versions of all plans
    /// by name.
    pub(crate) fn catch_up_with_plans(&mut self, versions: &HashMap<&str, &str>) {
        self.plans
            .retain(|plan, (written, _)| versions.get(plan.as_str()).is_some_and(|version| is_older(version, written)));
    }
}

/// Whether an object's version lies before another. Versions of one object are numbers that grow.
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version < than,
        (Ok(_) | Err(_), _) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(generation: i64, port: &Value) -> DynamicObject {
        let container = json!({"name": "main", "image": "x", "command": ["train"], "ports": [{"containerPort": port}]});
        let worker = json!({"replicas": 2, "template": {"spec": {"containers": [container]}}});
        let spec = json!({"distributionStrategy": "AllreduceStrategy", "replicaSpecs": {"worker": worker}});
        serde_json::from_value(json!({
            "apiVersion": "elastic.iml.github.io/v1alpha1", "kind": "ElasticJob",
            "metadata": {"name": "j", "namespace": "n", "generation": generation}, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn a_job_stays_as_it_was_before_an_edit_that_cannot_be_read() {
        let kind = flexor_dialects::kinds().find(|kind| kind.kind == "ElasticJob" && kind.dialect == "dlrover");
        let kind = kind.unwrap();
        let mut memory = JobMemory::default();
        assert!(memory.read_job(kind, &object(1, &json!("22"))).is_err(), "it was never readable");
        let ((generation, job), complaint) = memory.read_job(kind, &object(2, &json!(22))).unwrap();
        assert_eq!((generation, complaint.is_none()), (2, true));
        let ((generation, last), complaint) = memory.read_job(kind, &object(3, &json!("22"))).unwrap();
        assert_eq!((generation, complaint.is_some()), (2, true));
        assert!(Arc::ptr_eq(&job, &last));
        assert_eq!(memory.read_job(kind, &object(4, &json!(22))).unwrap().0.0, 4);
    }

    #[test]
    fn the_status_of_a_plan_is_remembered_until_the_cache_shows_it_or_the_plan_is_gone() {
        let mut memory = JobMemory::default();
        for plan in ["lags", "shown", "gone"] {
            memory.plans.insert(plan.to_owned(), ("10".to_owned(), PlanStatus::default()));
        }
        memory.catch_up_with_plans(&HashMap::from([("lags", "9"), ("shown", "10")]));
        assert_eq!(memory.plans.keys().collect::<Vec<_>>(), ["lags"]);
    }
}
