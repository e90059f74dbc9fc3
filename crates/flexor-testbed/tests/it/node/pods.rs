//! Fixtures: pods that run a line of shell in real containers.

use std::{process::Command, time::Duration};

use flexor_testbed::{BUSYBOX_IMAGE, TestNamespace, await_condition};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use serde_json::{Value, json};

/// Far more than anything here takes on a busy machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(90);

/// A container that runs a line of shell.
pub(super) fn container(name: &str, line: &str) -> Value {
    json!({ "name": name, "image": BUSYBOX_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", line] })
}

/// A pod of one container that is never restarted and ends at once when it is deleted.
pub(super) fn pod(name: &str, line: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container("main", line)],
        },
    })
}

/// The same pod on one node.
pub(super) fn on_node(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": node });
    pod
}

/// Creates a pod and waits until all its containers are ready.
pub(super) async fn run(namespace: &TestNamespace<'_>, pod: Value) -> Pod {
    let name = create(namespace, pod).await;
    await_pod(namespace, &name, "to be ready", is_ready).await
}

/// Creates a pod and gives its name.
pub(super) async fn create(namespace: &TestNamespace<'_>, pod: Value) -> String {
    let pod: Pod = serde_json::from_value(pod).unwrap();
    namespace.api().create(&PostParams::default(), &pod).await.unwrap();
    pod.metadata.name.unwrap()
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

pub(super) fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

pub(super) fn address_of(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).unwrap_or_default()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What a command prints; it must succeed.
pub(super) fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}
