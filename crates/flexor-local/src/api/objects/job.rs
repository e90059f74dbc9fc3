//! A job: its manifest, with the status as its dialect writes it.

use flexor_dialects::dialect;
use serde_json::json;

use super::{Object, time};
use crate::cluster::{ClusterView, JobRecord};

pub(super) fn object(job: &JobRecord, all: &ClusterView<'_>) -> Object {
    let mut json = job.manifest.clone();
    let metadata = &mut json["metadata"];
    metadata["namespace"] = json!(job.key.namespace);
    metadata["uid"] = json!(job.uid.to_string());
    metadata["generation"] = json!(job.generation);
    metadata["creationTimestamp"] = time(job.created_at);
    if let Some(dialect) = dialect(&job.job.dialect) {
        let pods = all.pods.values().filter(|pod| pod.meta.job == job.key);
        let counts = JobRecord::count(pods.map(|pod| (&pod.meta.desired.role, pod.phase())));
        json["status"] = dialect.status(&job.status_input(&counts));
    }
    Object { id: job.uid.to_string(), json }
}
