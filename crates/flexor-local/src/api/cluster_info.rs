//! The cluster itself as an object: which process runs it, since when, and its counts of jobs and pods.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::objects::{Object, time};
use crate::cluster::Cluster;

/// The one object of the resource `Cluster`.
pub(super) fn object(cluster: &Cluster) -> Object {
    let (jobs, pods) = cluster.read(|all| {
        let jobs = counts(all.jobs.values().map(|job| format!("{:?}", job.status.phase)));
        (jobs, counts(all.pods.values().map(|pod| format!("{:?}", pod.phase()))))
    });
    let options = cluster.options();
    let json = json!({
        "apiVersion": "flexor.dev/v1",
        "kind": "LaptopCluster",
        "metadata": { "name": "laptop", "creationTimestamp": time(cluster.since()) },
        "status": {
            "up": true,
            "process": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "stateDir": options.state_dir.path(),
            "folder": options.folder,
            "log": options.background.then(|| options.state_dir.log()),
            "background": options.background,
            "ephemeral": options.ephemeral,
            "cpus": options.cpus.map(|cpus| cpus.to_string()),
            "memoryLimits": cluster.memory_limits().to_string(),
            "machineCPUs": std::thread::available_parallelism().map_or(0, usize::from),
            "jobs": jobs,
            "pods": pods,
        },
    });
    Object { id: String::new(), json }
}

/// The number of phases of each kind.
fn counts(phases: impl Iterator<Item = String>) -> Value {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for phase in phases {
        *counts.entry(phase).or_default() += 1;
    }
    json!(counts)
}
