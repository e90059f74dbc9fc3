//! The jobs of the race.

use serde_json::{Value, json};

/// The collection of DLRover's jobs in a namespace.
pub(super) fn dlrover(namespace: &str) -> String {
    format!("/apis/elastic.iml.github.io/v1alpha1/namespaces/{namespace}/elasticjobs")
}

/// The collection of TorchElastic's jobs in a namespace.
pub(super) fn torchelastic(namespace: &str) -> String {
    format!("/apis/elastic.pytorch.org/v1alpha1/namespaces/{namespace}/elasticjobs")
}

/// DLRover's all-reduce job: this many workers, whose names are used again, and a master.
pub(super) fn all_reduce(name: &str, workers: u32) -> Value {
    json!({
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": { "name": name },
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "replicaSpecs": { "worker": { "replicas": workers, "template": template("main") } },
        },
    })
}

/// The pod of a worker of [`all_reduce`].
pub(super) fn worker(job: &str, number: u32) -> String {
    format!("{job}-edljob-worker-{number}")
}

/// TorchElastic's job with an etcd of its user's own: exactly this many pods, no master, and one service.
pub(super) fn fixed(name: &str, pods: u32) -> Value {
    json!({
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": { "name": name },
        "spec": {
            "rdzvEndpoint": "etcd-service:2379",
            "minReplicas": 1,
            "maxReplicas": 100_000,
            "replicaSpecs": { "Worker": { "replicas": pods, "template": template("elasticjob-worker") } },
        },
    })
}

/// The change that gives a job of [`fixed`] another size.
pub(super) fn resized(pods: u32) -> Value {
    json!({ "spec": { "replicaSpecs": { "Worker": { "replicas": pods } } } })
}

/// The pod of a job of [`fixed`].
pub(super) fn pod_of_fixed(job: &str, number: u32) -> String {
    format!("{job}-worker-{number}")
}

fn template(container: &str) -> Value {
    json!({ "spec": { "containers": [{ "name": container, "image": "none", "command": ["torchrun", "train.py"] }] } })
}
