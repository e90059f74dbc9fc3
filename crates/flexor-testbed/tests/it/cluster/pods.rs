//! Fixtures: a pod with annotations, and queries about a pod.

use std::time::Duration;

use flexor_testbed::{TestNamespace, await_condition};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::api::PostParams;
use serde_json::{Value, json};

/// Far more than anything here takes on a busy machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// A pod of one container that is never restarted.
pub(super) fn pod(name: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "train:1" }] },
    })
}

pub(super) async fn create(namespace: &TestNamespace<'_>, pod: Value) -> Pod {
    let pod: Pod = serde_json::from_value(pod).unwrap();
    namespace.api().create(&PostParams::default(), &pod).await.unwrap()
}

/// Waits for a state of the pod.
pub(super) async fn await_pod(
    namespace: &TestNamespace<'_>,
    name: &str,
    what: &str,
    condition: impl Fn(&Pod) -> bool,
) -> Pod {
    let found = await_condition(DEADLINE, namespace.api(), name, what, |pod: Option<&Pod>| pod.is_some_and(&condition));
    found.await.unwrap().unwrap()
}

pub(super) async fn await_gone(namespace: &TestNamespace<'_>, name: &str) {
    await_condition(DEADLINE, namespace.api(), name, "to be gone", |pod: Option<&Pod>| pod.is_none()).await.unwrap();
}

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// How the first container ended.
pub(super) fn ended(pod: &Pod) -> &ContainerStateTerminated {
    let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    status.state.as_ref().unwrap().terminated.as_ref().unwrap()
}
