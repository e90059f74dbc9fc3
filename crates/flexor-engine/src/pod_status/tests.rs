//! Pod statuses in the form in which Kubernetes writes them, cut to the fields that matter, and what is read from each.

use serde_json::{Value, json};

use super::*;
use crate::nodes::{ExitKind, classify};

fn metadata() -> PodMetadata {
    PodMetadata {
        name: "mnist-worker-0".to_owned(),
        uid: "2f0a3f6e-8a0e-4b7e-9d59-3f3d2a9a6b11".to_owned(),
        role: "worker".parse().unwrap(),
        id: NodeId(0),
        rank: Rank(0),
        deleting: false,
        overdue: false,
    }
}

fn read(status: Value) -> ObservedPod {
    observe(metadata(), &serde_json::from_value(status).unwrap(), "main")
}

fn at(text: &str) -> UnixTime {
    text.parse().unwrap()
}

/// One container that ended at 10:05:00 after five minutes.
fn terminated(name: &str, exit_code: i32, reason: &str) -> Value {
    json!({
        "name": name, "ready": false, "restartCount": 0, "started": false,
        "image": "docker.io/library/python:3.12", "imageID": "docker.io/library/python@sha256:1b9c",
        "containerID": "containerd://9e8d", "lastState": {},
        "state": { "terminated": {
            "containerID": "containerd://9e8d", "exitCode": exit_code, "reason": reason,
            "startedAt": "2026-03-01T10:00:00Z", "finishedAt": "2026-03-01T10:05:00Z",
        } },
    })
}

fn running(name: &str) -> Value {
    json!({
        "name": name, "ready": true, "restartCount": 0, "started": true, "lastState": {},
        "state": { "running": { "startedAt": "2026-03-01T10:00:00Z" } },
    })
}

fn waiting(name: &str, reason: &str, message: Option<&str>) -> Value {
    let mut waiting = json!({ "reason": reason });
    if let Some(message) = message {
        waiting["message"] = message.into();
    }
    json!({ "name": name, "ready": false, "restartCount": 0, "lastState": {}, "state": { "waiting": waiting } })
}

#[test]
fn an_end_is_read_and_classified_as_what_it_was() {
    let disrupted = |reason: &str, message: &str| {
        json!([{
            "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
            "lastProbeTime": null, "lastTransitionTime": "2026-03-01T10:04:30Z",
        }])
    };
    let rows: Vec<(&str, Value, ExitKind, &str)> = vec![
        (
            "success",
            json!({ "phase": "Succeeded", "containerStatuses": [terminated("main", 0, "Completed")] }),
            ExitKind::Succeeded,
            "exit code 0",
        ),
        (
            "an error of the program",
            json!({ "phase": "Failed", "containerStatuses": [terminated("main", 1, "Error")] }),
            ExitKind::ProgramError,
            "exit code 1",
        ),
        (
            "out of memory",
            json!({ "phase": "Failed", "containerStatuses": [terminated("main", 137, "OOMKilled")] }),
            ExitKind::OutOfMemory,
            "exit code 137, OOMKilled",
        ),
        (
            "killed from outside",
            json!({ "phase": "Failed", "containerStatuses": [terminated("main", 137, "Error")] }),
            ExitKind::Killed,
            "exit code 137",
        ),
        (
            "evicted by the kubelet",
            json!({
                "phase": "Failed", "reason": "Evicted",
                "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 3Mi.",
                "conditions": disrupted("TerminationByKubelet", "The node was low on resource: memory."),
                "containerStatuses": [terminated("main", 137, "Error")],
            }),
            ExitKind::Evicted,
            "the cluster says Evicted",
        ),
        (
            "evicted through the API, by a drain",
            json!({
                "phase": "Failed",
                "conditions": disrupted("EvictionByEvictionAPI", "Eviction API: evicting"),
                "containerStatuses": [terminated("main", 143, "Error")],
            }),
            ExitKind::Evicted,
            "the cluster says EvictionByEvictionAPI",
        ),
        (
            "preempted by the scheduler",
            json!({
                "phase": "Failed",
                "conditions": disrupted(
                    "PreemptionByScheduler",
                    "default-scheduler: preempting to accommodate a higher priority pod",
                ),
                "containerStatuses": [terminated("main", 143, "Error")],
            }),
            ExitKind::Preempted,
            "the cluster says PreemptionByScheduler; default-scheduler: preempting to accommodate a higher priority pod",
        ),
        (
            "preempted by the kubelet",
            json!({
                "phase": "Failed", "reason": "Preempting", "message": "Preempted in order to admit critical pod",
                "containerStatuses": [terminated("main", 143, "Error")],
            }),
            ExitKind::Preempted,
            "the cluster says Preempting; Preempted in order to admit critical pod",
        ),
        (
            "deleted by the taint manager, because its node does not answer",
            json!({
                "phase": "Failed",
                "conditions": disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
                "containerStatuses": [running("main")],
            }),
            ExitKind::MachineLost,
            "the cluster says DeletionByTaintManager",
        ),
        (
            "collected after its node was deleted",
            json!({
                "phase": "Failed",
                "conditions": disrupted("DeletionByPodGC", "PodGC: node no longer exists"),
                "containerStatuses": [running("main")],
            }),
            ExitKind::MachineLost,
            "the cluster says DeletionByPodGC",
        ),
        (
            "shut down with its node",
            json!({
                "phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown.",
                "conditions": disrupted("TerminationByKubelet", "Pod was terminated in response to imminent node shutdown."),
                "containerStatuses": [terminated("main", 143, "Error")],
            }),
            ExitKind::MachineLost,
            "the cluster says Terminated",
        ),
        (
            "failed while none of its containers did",
            json!({ "phase": "Failed", "containerStatuses": [running("main")] }),
            ExitKind::MachineLost,
            "the cluster says NodeLost",
        ),
        (
            "refused by the kubelet before anything ran",
            json!({ "phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu" }),
            ExitKind::Rejected,
            "the cluster says OutOfcpu",
        ),
        (
            "longer than activeDeadlineSeconds",
            json!({
                "phase": "Failed", "reason": "DeadlineExceeded",
                "message": "Pod was active on the node longer than the specified deadline",
                "containerStatuses": [terminated("main", 143, "Error")],
            }),
            ExitKind::DeadlineExceeded,
            "the pod ran longer than activeDeadlineSeconds of its template",
        ),
        (
            "an init container that failed",
            json!({
                "phase": "Failed",
                "initContainerStatuses": [
                    terminated("first", 0, "Completed"), terminated("fetch", 3, "Error"), waiting("third", "PodInitializing", None),
                ],
                "containerStatuses": [waiting("main", "PodInitializing", None)],
            }),
            ExitKind::ProgramError,
            "exit code 3; init container fetch",
        ),
        (
            "a container that cannot be created",
            json!({
                "phase": "Failed",
                "containerStatuses": [waiting("main", "CreateContainerError", Some("there is no program train.py"))],
            }),
            ExitKind::CannotRun,
            "its container cannot be made; there is no program train.py",
        ),
    ];
    for (what, status, kind, detail) in rows {
        let pod = read(status);
        let exit = classify(&pod.end);
        assert_eq!((exit.kind, exit.detail.as_str()), (kind, detail), "{what}");
        assert!(pod.has_ended() && pod.pending.is_none(), "{what}: {pod:?}");
    }
}

#[test]
fn times_are_those_of_the_main_program() {
    let ended = read(json!({
        "phase": "Succeeded",
        "initContainerStatuses": [running("sidecar")],
        "containerStatuses": [terminated("other", 0, "Completed"), terminated("main", 0, "Completed")],
    }));
    assert_eq!(ended.started_at, Some(at("2026-03-01T10:00:00Z")));
    assert_eq!(ended.finished_at, Some(at("2026-03-01T10:05:00Z")));
    let runs = read(json!({ "phase": "Running", "containerStatuses": [running("main")] }));
    assert_eq!((runs.started_at, runs.finished_at), (Some(at("2026-03-01T10:00:00Z")), None));
    assert_eq!((runs.phase, runs.pending, runs.end), (PodPhase::Running, None, ObservedExit::default()));
}

#[test]
fn a_pending_pod_says_what_it_waits_for() {
    let unscheduled = |reason: &str, message: &str| {
        json!({ "phase": "Pending", "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": reason, "message": message },
        ] })
    };
    let scheduled = |init: Value, main: Value| {
        json!({
            "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "True" }, { "type": "Ready", "status": "False" }],
            "initContainerStatuses": init,
            "containerStatuses": [main],
        })
    };
    let creating = || waiting("main", "ContainerCreating", None);
    let back_off = "Back-off pulling image \"registry.example/train:1\"";
    let no_map = "configmap \"settings\" not found";
    let rows = [
        (json!({}), None),
        (scheduled(json!([]), creating()), None),
        (scheduled(json!([running("sidecar")]), waiting("main", "PodInitializing", None)), None),
        (
            unscheduled("Unschedulable", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
            Some((Reason::Unschedulable, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")),
        ),
        (
            unscheduled("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"),
            Some((Reason::Unschedulable, "Scheduling is blocked due to non-empty scheduling gates")),
        ),
        (
            scheduled(json!([]), waiting("main", "ImagePullBackOff", Some(back_off))),
            Some((Reason::MissingReference, back_off)),
        ),
        (
            scheduled(json!([waiting("fetch", "ErrImagePull", None)]), waiting("main", "PodInitializing", None)),
            Some((Reason::MissingReference, "ErrImagePull")),
        ),
        (
            scheduled(json!([]), waiting("main", "CreateContainerConfigError", Some(no_map))),
            Some((Reason::MissingReference, no_map)),
        ),
        (
            scheduled(json!([]), waiting("main", "CreateContainerError", Some("context deadline exceeded"))),
            Some((Reason::CreateRefused, "context deadline exceeded")),
        ),
    ];
    for (status, expected) in rows {
        let shown = status.to_string();
        let pending = read(status).pending;
        assert_eq!(pending, expected.map(|(reason, message)| Cause::new(reason, message)), "{shown}");
    }
}

#[test]
fn a_program_that_fails_after_its_sidecar_was_killed_is_not_to_blame() {
    let sidecar = |exit_code: i32, reason: &str, finished_at: &str| {
        let mut sidecar = running("flexor-sidecar");
        sidecar["restartCount"] = 1.into();
        sidecar["lastState"] = json!({ "terminated": {
            "exitCode": exit_code, "reason": reason, "startedAt": "2026-03-01T09:00:00Z", "finishedAt": finished_at,
        } });
        sidecar
    };
    let kind = |sidecar: Value, exit_code: i32| {
        let pod = read(json!({
            "phase": "Failed",
            "initContainerStatuses": [sidecar],
            "containerStatuses": [terminated("main", exit_code, "Error")],
        }));
        classify(&pod.end).kind
    };
    assert_eq!(kind(sidecar(137, "Error", "2026-03-01T10:04:31Z"), 1), ExitKind::Killed);
    assert_eq!(kind(sidecar(137, "Error", "2026-03-01T10:04:30Z"), 1), ExitKind::ProgramError, "too long before");
    assert_eq!(kind(sidecar(137, "Error", "2026-03-01T10:05:01Z"), 1), ExitKind::ProgramError, "after it");
    assert_eq!(kind(sidecar(137, "OOMKilled", "2026-03-01T10:04:31Z"), 1), ExitKind::ProgramError, "for its memory");
    assert_eq!(kind(sidecar(1, "Error", "2026-03-01T10:04:31Z"), 1), ExitKind::ProgramError, "by itself");
    assert_eq!(kind(terminated("flexor-sidecar", 137, "Error"), 1), ExitKind::Killed, "it was not restarted");
}

#[test]
fn a_pod_on_a_node_that_does_not_answer_is_going_but_has_not_ended() {
    let status = json!({
        "phase": "Running", "reason": "NodeLost",
        "message": "Node w-3 which was running pod mnist-worker-0 is unresponsive",
        "containerStatuses": [running("main")],
    });
    let status: PodStatus = serde_json::from_value(status).unwrap();
    let pod = observe(PodMetadata { deleting: true, ..metadata() }, &status, "main");
    assert_eq!((pod.phase, pod.deleting, pod.has_ended()), (PodPhase::Running, true, false));
    assert_eq!(classify(&pod.end).kind, ExitKind::MachineLost);
    let unknown = read(json!({ "phase": "Unknown", "containerStatuses": [running("main")] }));
    assert_eq!((unknown.phase, unknown.has_ended()), (PodPhase::Running, false));
}

#[test]
fn a_status_is_written_as_it_was_read() {
    let written = json!({
        "phase": "Failed",
        "conditions": [{ "type": "PodScheduled", "status": "True" }],
        "containerStatuses": [{
            "name": "main", "ready": false, "restartCount": 2,
            "state": { "terminated": {
                "exitCode": 1, "reason": "Error", "startedAt": "2026-03-01T10:00:00Z",
                "finishedAt": "2026-03-01T10:05:00Z", "message": "no such file",
            } },
        }],
        "initContainerStatuses": [],
        "reason": "Evicted",
    });
    let status: PodStatus = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&status).unwrap(), written);
}
