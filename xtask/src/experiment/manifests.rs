//! The objects of the experiment, with the sizes of the published run.

use flexor_sched::sim::{JobShape, OnlineService};
use flexor_testbed::stages;
use serde_json::{Value, json};

/// The label of the pods of the online service.
pub(super) const ONLINE: (&str, &str) = ("app", "nginx");

/// What pods of the system take of every node.
pub(super) fn standing_load(millis: u32) -> Value {
    let labels = json!({ "app": "standing-load" });
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": { "name": "standing-load", "labels": labels },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [container(&format!("{millis}m"), "64Mi")] },
            },
        },
    })
}

/// The name of a job.
pub(super) fn job_name(job: usize) -> String {
    format!("mnist{job}")
}

/// A job that the planner sizes.
pub(super) fn job(name: &str, shape: &JobShape) -> Value {
    let resources = |cores: u32, memory: &str| json!({ "requests": { "cpu": cores.to_string(), "memory": memory } });
    json!({
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": { "name": name },
        "spec": {
            "image": "flexor:latest",
            "fault_tolerant": true,
            "passes": 120,
            "trainer": {
                "entrypoint": "train",
                "min-instance": shape.min,
                "max-instance": shape.max,
                "resources": resources(shape.trainer_cores, "8Gi"),
            },
            "pserver": {
                "min-instance": shape.servers,
                "max-instance": shape.servers,
                "resources": resources(shape.server_cores, "5Gi"),
            },
            "master": { "resources": resources(shape.master_cores, "300Mi") },
        },
    })
}

/// The online service. It has no autoscaler: the experiment sets its replicas.
pub(super) fn online(service: &OnlineService) -> Value {
    let labels = json!({ ONLINE.0: ONLINE.1 });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": ONLINE.1, "labels": labels },
        "spec": {
            "replicas": service.replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": { stages::STOP_AFTER: format!("{}s", service.grace) },
                },
                "spec": { "containers": [container(&service.cores.to_string(), "3Gi")] },
            },
        },
    })
}

/// The change that gives the online service another size.
pub(super) fn resized(replicas: u32) -> Value {
    json!({ "spec": { "replicas": replicas } })
}

/// The change after which a running pod completes.
pub(super) fn completed() -> Value {
    json!({ "metadata": { "annotations": { stages::COMPLETE_AFTER: "1s" } } })
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({ "name": "main", "image": "none", "resources": { "requests": { "cpu": cpu, "memory": memory } } })
}
