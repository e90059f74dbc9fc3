//! A pod as Kubernetes would show it: the Pod that the renderer made, with what the cluster and the pod's supervisor
//! know of it.

use flexor_engine::pod_status::{ContainerState, ContainerStatus};
use flexor_model::UnixTime;
use serde_json::{Value, json};

use super::{Object, time};
use crate::cluster::PodRecord;
use crate::pods::interpreter::NODE;
use crate::pods::status as supervisor;

pub(super) fn object(pod: &PodRecord) -> Object {
    let meta = &pod.meta;
    let mut json = meta.rendered.clone();
    json["metadata"]["uid"] = meta.uid.as_str().into();
    json["metadata"]["creationTimestamp"] = time(meta.created_at);
    if let Some(since) = meta.deleting_since {
        json["metadata"]["deletionTimestamp"] = time(since);
    }
    if !pod.is_unschedulable() {
        json["spec"]["nodeName"] = NODE.into();
    }
    json["status"] = status(pod, &sidecars(&json["spec"]));
    Object { id: meta.uid.clone(), json }
}

/// The names of the init containers that run beside all others.
fn sidecars(spec: &Value) -> Vec<&str> {
    let first = spec["initContainers"].as_array().into_iter().flatten();
    first.filter(|one| one["restartPolicy"] == "Always").filter_map(|one| one["name"].as_str()).collect()
}

fn status(pod: &PodRecord, sidecars: &[&str]) -> Value {
    let kubernetes = pod.kubernetes_status(sidecars);
    let containers = |statuses: &[ContainerStatus]| -> Vec<Value> {
        statuses.iter().map(|status| container(status, pod.status.as_ref())).collect()
    };
    let mut status = json!({
        "phase": kubernetes.phase,
        "podIP": pod.meta.address,
        "hostIP": "127.0.0.1",
        "startTime": time(pod.meta.created_at),
        "containerStatuses": containers(&kubernetes.container_statuses),
        "initContainerStatuses": containers(&kubernetes.init_container_statuses),
    });
    if !kubernetes.conditions.is_empty() {
        status["conditions"] = json!(kubernetes.conditions);
    }
    for (field, text) in [("reason", kubernetes.reason), ("message", kubernetes.message)] {
        if let Some(text) = text {
            status[field] = text.into();
        }
    }
    status
}

/// The status of a container, with what is peculiar to the laptop: its process, its memory limit and a log that was cut.
fn container(status: &ContainerStatus, reported: Option<&supervisor::PodStatus>) -> Value {
    // The time of a failure is for the controller.
    let mut status = ContainerStatus { failed_at: None, ..status.clone() };
    for state in [&mut status.state, &mut status.last_state] {
        use_whole_seconds(state);
    }
    let mut json = json!(status);
    let reported = reported.and_then(|pod| pod.containers.iter().find(|known| known.name == status.name));
    let Some(reported) = reported else { return json };
    if let supervisor::ContainerState::Running { pid, .. } = reported.state {
        json["state"]["running"]["pid"] = pid.into();
    }
    let limited = reported.limited.as_ref().map(ToString::to_string);
    for (field, text) in [("memoryLimited", limited), ("logCut", reported.log_cut.clone())] {
        if let Some(text) = text {
            json[field] = text.into();
        }
    }
    json
}

/// Kubernetes keeps times of containers to the second.
fn use_whole_seconds(state: &mut ContainerState) {
    let running = state.running.iter_mut().map(|running| &mut running.started_at);
    let terminated = state.terminated.iter_mut().flat_map(|end| [&mut end.started_at, &mut end.finished_at]);
    for at in running.chain(terminated) {
        *at = at.map(UnixTime::whole_second);
    }
}
