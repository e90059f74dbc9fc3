//! A pod: what its template says and what its parent says of it.

use flexor_engine::controller::PodPhase;
use flexor_model::Quantity;
use serde_json::{Value, json};

use super::{Object, time, timestamp};
use crate::cluster::{Everything, PendingReason, PodRecord};
use crate::pods::status::{ContainerState, ContainerStatus};

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
    if containers(pod).any(|container| container.name == SIDECAR) {
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
    let phase = pod.phase();
    let said = pod.status.as_ref();
    let is_lost = phase == PodPhase::Failed && said.is_some_and(|said| !said.phase.is_over());
    let (reason, message) = match (&pod.trouble, is_lost) {
        (Some(trouble), _) => (Some("CreateContainerError"), Some(trouble.as_str())),
        (None, true) => (Some("NodeLost"), Some("the process that looked after it is gone")),
        (None, false) => (said.and_then(|said| said.reason.as_deref()), said.and_then(|said| said.message.as_deref())),
    };
    let shown = |init: bool| -> Vec<Value> {
        let shown = containers(pod).filter(|container| container.init == init);
        shown.map(|one| container(one, one.init && !sidecars.contains(&one.name.as_str()))).collect()
    };
    let mut status = json!({
        "phase": format!("{phase:?}"),
        "podIP": pod.meta.address,
        "hostIP": "127.0.0.1",
        "startTime": time(pod.meta.created_at),
        "containerStatuses": shown(false),
        "initContainerStatuses": shown(true),
    });
    match &pod.pending {
        Some(PendingReason::Unschedulable(why)) => {
            let condition =
                json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why });
            status["conditions"] = json!([condition]);
        }
        Some(pending @ (PendingReason::MissingReference(why) | PendingReason::CreateRefused(why))) => {
            let is_missing = matches!(pending, PendingReason::MissingReference(_));
            let reason = if is_missing { "CreateContainerConfigError" } else { "CreateContainerError" };
            let waiting = json!({ "reason": reason, "message": why });
            let container =
                json!({ "name": pod.meta.main, "ready": false, "restartCount": 0, "state": { "waiting": waiting } });
            status["containerStatuses"] = json!([container]);
        }
        Some(PendingReason::New) | None => {}
    }
    for (field, text) in [("reason", reason), ("message", message)] {
        if let Some(text) = text {
            status[field] = text.into();
        }
    }
    status
}

fn containers(pod: &PodRecord) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|status| &status.containers)
}

/// A container; one that only `prepares` what others need is ready once it is done.
fn container(container: &ContainerStatus, prepares: bool) -> Value {
    let (ready, state) = match &container.state {
        ContainerState::Waiting(reason) => (false, json!({ "waiting": { "reason": reason } })),
        ContainerState::Running { pid, started_at } => {
            (true, json!({ "running": { "startedAt": timestamp(*started_at), "pid": pid } }))
        }
        ContainerState::Terminated { exit_code, reason, message, started_at, finished_at } => {
            let mut end = json!({
                "exitCode": exit_code,
                "reason": reason,
                "startedAt": started_at.map_or(Value::Null, timestamp),
                "finishedAt": timestamp(*finished_at),
            });
            if let Some(message) = message {
                end["message"] = message.as_str().into();
            }
            (prepares && *exit_code == 0, json!({ "terminated": end }))
        }
    };
    let mut json =
        json!({ "name": container.name, "ready": ready, "restartCount": container.restarts, "state": state });
    let limited = container.limited.as_ref().map(ToString::to_string);
    for (field, text) in [("memoryLimited", limited), ("logCut", container.log_cut.clone())] {
        if let Some(text) = text {
            json[field] = text.into();
        }
    }
    json
}
