//! A pod as Kubernetes would show it: the Pod that the renderer made, with what the cluster and the pod's supervisor
//! know of it.

use flexor_engine::controller::PodPhase;
use serde_json::{Value, json};

use super::{Object, time, timestamp};
use crate::cluster::{PendingReason, PodRecord};
use crate::pods::interpreter::NODE;
use crate::pods::status::{ContainerState, ContainerStatus};

pub(super) fn object(pod: &PodRecord) -> Object {
    let meta = &pod.meta;
    let mut json = meta.rendered.clone();
    json["metadata"]["uid"] = meta.uid.as_str().into();
    json["metadata"]["creationTimestamp"] = time(meta.created_at);
    if let Some(since) = meta.deleting_since {
        json["metadata"]["deletionTimestamp"] = time(since);
    }
    if !pod.waits_for_room() {
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

/// The status of a container. An ordinary init container `prepares` for others and is ready once it has succeeded.
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
