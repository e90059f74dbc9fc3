//! The pace of the API server itself: a client that creates the operator's pods and does nothing else.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use super::pod_watch::{ChangeKind, rate_of_creation};
use super::{PodWatch, World, api, jobs};

/// Requests in flight, as in the largest batch in which the operator creates pods of one job.
pub(super) const IN_FLIGHT: usize = 512;

const LIMIT: Duration = Duration::from_secs(300);

/// Creates this many pods like those of [`jobs::fixed`]; returns pods per second. They are of no job.
pub(super) async fn pods_per_second(world: &World, pods: u32) -> Result<f64> {
    let (sample, namespace) = ("sample", "bare");
    world.namespace(sample).await?;
    world.namespace(namespace).await?;
    let samples = PodWatch::start(&world.api, sample).await?;
    world.api.post(&jobs::torchelastic(sample), &jobs::fixed("job", 1)).await?;
    samples.await_count(LIMIT, 0, ChangeKind::Running, 1).await.with_context(|| world.operator_log_end())?;
    let pod = world.api.get(&format!("{}/{}", api::pods(sample), jobs::pod_of_fixed("job", 0))).await?;
    let bodies: Vec<Value> = (0..pods).map(|number| unowned(&pod, &format!("bare-{number}"))).collect();

    let watch = PodWatch::start(&world.api, namespace).await?;
    let client = world.client_as_operator().await?;
    let path = api::pods(namespace);
    api::all(bodies.iter().map(|pod| client.post(&path, pod)), IN_FLIGHT).await?;
    watch.await_count(LIMIT, 0, ChangeKind::Running, pods as usize).await?;
    rate_of_creation(&watch.since(0))
}

/// The pod as it was sent to the API server, under another name and without its job.
fn unowned(pod: &Value, name: &str) -> Value {
    let mut pod = pod.clone();
    let labels = pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    // The operator finds its pods by these.
    let labels: Map<String, Value> = labels.into_iter().filter(|(key, _)| !key.starts_with("flexor.dev/")).collect();
    pod["metadata"] =
        serde_json::json!({ "name": name, "labels": labels, "annotations": pod["metadata"]["annotations"] });
    if let Some(fields) = pod.as_object_mut() {
        fields.remove("status");
    }
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("nodeName");
        drop_account_volumes(spec);
    }
    pod
}

/// Removes the volumes that the API server adds for the service account's token.
fn drop_account_volumes(spec: &mut Map<String, Value>) {
    let is_added = |value: &Value| value["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"));
    let drop_from = |list: &mut Value| {
        if let Some(list) = list.as_array_mut() {
            list.retain(|value| !is_added(value));
        }
    };
    if let Some(volumes) = spec.get_mut("volumes") {
        drop_from(volumes);
    }
    for kind in ["containers", "initContainers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(mounts) = container.get_mut("volumeMounts") {
                drop_from(mounts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bare_pod_is_the_operators_pod_without_its_job() {
        let account = json!({ "name": "kube-api-access-x2x7l" });
        let pod = json!({
            "metadata": {
                "name": "job-worker-0", "uid": "u", "resourceVersion": "7", "ownerReferences": [{ "name": "job" }],
                "labels": { "job-name": "job", "flexor.dev/job-uid": "u" }, "annotations": { "a": "b" },
            },
            "spec": {
                "nodeName": "node-0",
                "volumes": [{ "name": "data" }, account],
                "containers": [{ "name": "main", "volumeMounts": [account] }],
            },
            "status": { "phase": "Running" },
        });
        let expected = json!({
            "metadata": { "name": "bare-0", "labels": { "job-name": "job" }, "annotations": { "a": "b" } },
            "spec": { "volumes": [{ "name": "data" }], "containers": [{ "name": "main", "volumeMounts": [] }] },
        });
        assert_eq!(unowned(&pod, "bare-0"), expected);
    }
}
