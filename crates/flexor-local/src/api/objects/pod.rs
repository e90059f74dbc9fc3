//! A pod: what its template says and what its parent says of it.

use flexor_engine::controller::PodPhase;
use serde_json::{Value, json};

use super::{Object, time, timestamp};
use crate::cluster::{Everything, PodRecord};
use crate::pods::status::{ContainerState, ContainerStatus};

/// What the one machine is called.
const NODE: &str = "laptop";
/// What we put beside programs that are not ours.
const SIDECAR: &str = "flexor-sidecar";

pub(super) fn object(pod: &PodRecord, all: &Everything<'_>) -> Object {
    let meta = &pod.meta;
    let job = all.jobs.get(&meta.job);
    let mut metadata = json!({
        "name": meta.name,
        "namespace": meta.job.namespace,
        "uid": meta.uid,
        "labels": meta.labels,
        "creationTimestamp": time(meta.created_at),
    });
    if let Some(since) = meta.deleting_since {
        metadata["deletionTimestamp"] = time(since);
    }
    if let Some(job) = job {
        metadata["ownerReferences"] = json!([{
            "apiVersion": job.manifest["apiVersion"], "kind": job.manifest["kind"],
            "name": job.key.name, "uid": job.uid.to_string(), "controller": true,
        }]);
    }
    let role = job.and_then(|job| job.job.roles.iter().find(|role| role.name == meta.role));
    let mut spec = role.map_or_else(|| json!({}), |role| role.template.json()["spec"].clone());
    spec["nodeName"] = NODE.into();
    if containers(pod).any(|container| container.name == SIDECAR) {
        let ours = json!({ "name": SIDECAR, "restartPolicy": "Always" });
        match &mut spec["initContainers"] {
            Value::Array(others) => others.insert(0, ours),
            nothing => *nothing = json!([ours]),
        }
    }
    let json = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status(pod) });
    Object { id: meta.uid.clone(), json }
}

fn status(pod: &PodRecord) -> Value {
    let phase = pod.phase();
    let said = pod.status.as_ref();
    let is_lost = phase == PodPhase::Failed && said.is_some_and(|said| !said.phase.is_over());
    let (reason, message) = match (&pod.trouble, is_lost) {
        (Some(trouble), _) => (Some("CreateContainerError"), Some(trouble.as_str())),
        (None, true) => (Some("NodeLost"), Some("the process that looked after it is gone")),
        (None, false) => (said.and_then(|said| said.reason.as_deref()), said.and_then(|said| said.message.as_deref())),
    };
    let shown = |init: bool| -> Vec<Value> {
        containers(pod).filter(|container| container.init == init).map(container).collect()
    };
    let mut status = json!({
        "phase": format!("{phase:?}"),
        "podIP": pod.meta.address,
        "hostIP": "127.0.0.1",
        "startTime": time(pod.meta.created_at),
        "containerStatuses": shown(false),
        "initContainerStatuses": shown(true),
    });
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

fn container(container: &ContainerStatus) -> Value {
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
            (container.init && *exit_code == 0, json!({ "terminated": end }))
        }
    };
    json!({ "name": container.name, "ready": ready, "restartCount": container.restarts, "state": state })
}
