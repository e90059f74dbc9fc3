//! A pod: what its template says and what its parent says of it.

use flexor_engine::pod_status::{ContainerState, ContainerStatus};
use flexor_model::{Quantity, UnixTime};
use serde_json::{Value, json};

use super::{Object, time};
use crate::cluster::{Everything, PodRecord};
use crate::pods::status as supervisor;

/// What the one machine is called.
const NODE: &str = "laptop";
/// What we put beside programs that are not ours.
const SIDECAR: &str = "flexor-sidecar";

/// The annotation that says how many pods had a pod's place before it. Its containers count from 0, as on Kubernetes:
/// it is another pod.
pub const REPLACED: &str = "flexor/replaced";

pub(super) fn object(pod: &PodRecord, all: &Everything<'_>) -> Object {
    let meta = &pod.meta;
    let job = all.jobs.get(&meta.job);
    let mut metadata = json!({
        "name": meta.desired.name,
        "namespace": meta.job.namespace,
        "uid": meta.uid,
        "labels": meta.desired.labels,
        "creationTimestamp": time(meta.created_at),
    });
    if meta.desired.relaunches > 0 {
        metadata["annotations"] = json!({ REPLACED: meta.desired.relaunches.to_string() });
    }
    if let Some(since) = meta.deleting_since {
        metadata["deletionTimestamp"] = time(since);
    }
    if let Some(job) = job {
        metadata["ownerReferences"] = json!([{
            "apiVersion": job.manifest["apiVersion"], "kind": job.manifest["kind"],
            "name": job.key.name, "uid": job.uid.to_string(), "controller": true,
        }]);
    }
    let role = job.and_then(|job| job.job.roles.iter().find(|role| role.name == meta.desired.role));
    let mut spec = role.map_or_else(|| json!({}), |role| role.template.json()["spec"].clone());
    ask_as_planned(&mut spec, pod);
    if !pod.waits_for_room() {
        spec["nodeName"] = NODE.into();
    }
    let reported = pod.status.iter().flat_map(|status| &status.containers);
    if reported.into_iter().any(|container| container.name == SIDECAR) {
        let ours = json!({ "name": SIDECAR, "restartPolicy": "Always" });
        match &mut spec["initContainers"] {
            Value::Array(others) => others.insert(0, ours),
            nothing => *nothing = json!([ours]),
        }
    }
    let status = status(pod, &sidecars(&spec));
    let json = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status });
    Object { id: meta.uid.clone(), json }
}

/// Shows what a plan, or an end for want of memory, has the main container ask for, and that it may have as much.
fn ask_as_planned(spec: &mut Value, pod: &PodRecord) {
    let desired = &pod.meta.desired;
    let mut containers = spec["containers"].as_array_mut().into_iter().flatten();
    let Some(main) = containers.find(|one| one["name"] == *pod.meta.main) else { return };
    let planned = desired.resources.iter().chain(desired.memory.map(|memory| ("memory", memory)));
    for (name, quantity) in planned {
        let resources = &mut main["resources"];
        resources["requests"][name] = quantity.to_string().into();
        let limit = resources
            .get("limits")
            .and_then(|limits| limits[name].as_str())
            .and_then(|limit| limit.parse::<Quantity>().ok());
        if limit.is_some_and(|limit| limit < quantity) {
            resources["limits"][name] = quantity.to_string().into();
        }
    }
}

/// Those that stand beside: of the containers that come first, the ones that do not end.
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
    let mut status = status.clone();
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
