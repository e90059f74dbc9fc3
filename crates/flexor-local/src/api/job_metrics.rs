//! How fast jobs are: the rates of their training, what limits those that size themselves, and the cores that pods share.

use std::time::SystemTime;

use serde_json::json;

use super::objects::Object;
use crate::cluster::Cluster;

/// The metrics of the jobs of a namespace, or of all jobs if that is empty. A job whose master has reported nothing yet has
/// no rates.
pub(super) fn list(cluster: &Cluster, namespace: &str) -> Vec<Object> {
    let shared = cluster.machines().shared_millicores.map(|cores| format!("{cores}m"));
    let now = SystemTime::now().into();
    cluster.read(|all| {
        let jobs = all.jobs.values();
        let is_wanted = |key: &str| namespace.is_empty() || namespace == key;
        let object = |job: &crate::cluster::JobRecord| {
            let training = job.training.as_ref().map(|training| training.as_of(now));
            let training = training.as_ref();
            let json = json!({
                "apiVersion": "flexor.dev/v1",
                "kind": "JobMetrics",
                "metadata": { "name": job.key.name, "namespace": job.key.namespace },
                "stepsPerSecond": training.and_then(|training| training.steps_per_second),
                "recordsPerSecond": training.and_then(|training| training.records_per_second),
                "measured": training.and_then(|training| training.pace.as_ref()),
                "sharedCPU": shared,
            });
            Object { id: job.uid.to_string(), json }
        };
        jobs.filter(|job| is_wanted(job.key.namespace.as_str())).map(object).collect()
    })
}
