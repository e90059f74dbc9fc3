//! Each annotation of `flexor_testbed::stages` does what its table says.

use std::time::Instant;

use flexor_testbed::{await_condition, cluster_or_skip, stages};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

use super::pods::{DEADLINE, await_gone, await_pod, create, ended, phase, pod};

fn seconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}

#[tokio::test]
async fn a_plain_pod_runs_at_once_and_is_deleted_at_once() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("plain-pod").await.unwrap();
    create(&namespace, pod("plain", &[])).await;
    let running = await_pod(&namespace, "plain", "Running", |pod| phase(pod) == "Running").await;
    let status = running.status.unwrap();
    assert!(status.pod_ip.unwrap().starts_with("10.244."));
    assert_eq!(status.host_ip.as_deref(), Some("127.0.0.1"));
    assert!(status.start_time.is_some());
    let main = &status.container_statuses.unwrap()[0];
    assert!(main.ready && main.started == Some(true));
    assert!(main.state.as_ref().unwrap().running.is_some());

    let start = Instant::now();
    namespace.api::<Pod>().delete("plain", &DeleteParams::default()).await.unwrap();
    await_gone(&namespace, "plain").await;
    assert!(seconds(start) < 15.0, "the grace time of 30 s is no reason to wait: {}", seconds(start));
}

#[tokio::test]
async fn a_native_sidecar_counts_in_ready() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("sidecar").await.unwrap();
    let mut with_sidecar = pod("two", &[(stages::COMPLETE_AFTER, "3s")]);
    with_sidecar["spec"]["initContainers"] = json!([
        { "name": "prepare", "image": "prepare:1" },
        { "name": "sidecar", "image": "sidecar:1", "restartPolicy": "Always" },
    ]);
    create(&namespace, with_sidecar).await;
    await_pod(&namespace, "two", "Running", |pod| phase(pod) == "Running").await;
    let table = namespace.kubectl(["get", "pod", "two", "--no-headers"]).output().unwrap();
    let line = String::from_utf8(table.stdout).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("2/2"), "{line}");

    let done = await_pod(&namespace, "two", "Succeeded", |pod| phase(pod) == "Succeeded").await;
    let inits = done.status.unwrap().init_container_statuses.unwrap();
    assert!(inits.iter().all(|init| init.state.as_ref().unwrap().terminated.is_some()), "{inits:?}");
}

#[tokio::test]
async fn start_after_holds_the_pod_in_container_creating() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("start-after").await.unwrap();
    let start = Instant::now();
    create(&namespace, pod("slow", &[(stages::START_AFTER, "1500ms")])).await;
    let creating = await_pod(&namespace, "slow", "ContainerCreating", |pod| {
        pod.status.as_ref().is_some_and(|status| status.start_time.is_some())
    })
    .await;
    assert_eq!(phase(&creating), "Pending");
    let waiting = creating.status.unwrap().container_statuses.unwrap()[0].state.clone().unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("ContainerCreating"));
    await_pod(&namespace, "slow", "Running", |pod| phase(pod) == "Running").await;
    assert!(seconds(start) > 1.5, "{}", seconds(start));
}

#[tokio::test]
async fn complete_after_succeeds() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("complete-after").await.unwrap();
    let start = Instant::now();
    create(&namespace, pod("done", &[(stages::COMPLETE_AFTER, "1500ms")])).await;
    let done = await_pod(&namespace, "done", "Succeeded", |pod| phase(pod) == "Succeeded").await;
    assert!(seconds(start) > 1.5, "{}", seconds(start));
    assert_eq!((ended(&done).exit_code, ended(&done).reason.as_deref()), (0, Some("Completed")));
}

#[tokio::test]
async fn a_change_to_the_pod_does_not_start_its_time_anew() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("touched").await.unwrap();
    let start = Instant::now();
    create(&namespace, pod("touched", &[(stages::COMPLETE_AFTER, "3s")])).await;
    await_pod(&namespace, "touched", "Running", |pod| phase(pod) == "Running").await;
    let api: Api<Pod> = namespace.api();
    let touching = async {
        for count in 0.. {
            let patch = Patch::Merge(json!({ "metadata": { "labels": { "touched": count.to_string() } } }));
            api.patch("touched", &PatchParams::default(), &patch).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
    };
    tokio::select! {
        () = touching => unreachable!("it goes on for ever"),
        _ = await_pod(&namespace, "touched", "Succeeded", |pod| phase(pod) == "Succeeded") => {}
    }
    assert!(seconds(start) > 3.0, "{}", seconds(start));
}

#[tokio::test]
async fn fail_after_fails_with_the_exit_code() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("fail-after").await.unwrap();
    create(&namespace, pod("told", &[(stages::FAIL_AFTER, "100ms"), (stages::EXIT_CODE, "3")])).await;
    create(&namespace, pod("plain", &[(stages::FAIL_AFTER, "100ms")])).await;
    for (name, exit_code) in [("told", 3), ("plain", 1)] {
        let failed = await_pod(&namespace, name, "Failed", |pod| phase(pod) == "Failed").await;
        assert_eq!((ended(&failed).exit_code, ended(&failed).reason.as_deref()), (exit_code, Some("Error")));
    }
}

#[tokio::test]
async fn oom_after_is_an_oom_kill() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("oom-after").await.unwrap();
    create(&namespace, pod("hungry", &[(stages::OOM_AFTER, "100ms")])).await;
    let killed = await_pod(&namespace, "hungry", "Failed", |pod| phase(pod) == "Failed").await;
    assert_eq!((ended(&killed).exit_code, ended(&killed).reason.as_deref()), (137, Some("OOMKilled")));
}

#[tokio::test]
async fn evict_after_is_an_eviction() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("evict-after").await.unwrap();
    create(&namespace, pod("evicted", &[(stages::EVICT_AFTER, "100ms")])).await;
    let evicted = await_pod(&namespace, "evicted", "Failed", |pod| phase(pod) == "Failed").await;
    let status = evicted.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("Evicted"));
    assert!(status.conditions.unwrap().iter().any(|condition| condition.type_ == "DisruptionTarget"));
}

#[tokio::test]
async fn a_restart_policy_restarts_in_place() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("restart").await.unwrap();
    for (name, ending, policy) in [("fails", stages::FAIL_AFTER, "OnFailure"), ("hungry", stages::OOM_AFTER, "Always")]
    {
        let mut restarted = pod(name, &[(ending, "200ms"), (stages::EXIT_CODE, "7")]);
        restarted["spec"]["restartPolicy"] = json!(policy);
        create(&namespace, restarted).await;
    }
    for (name, exit_code) in [("fails", 7), ("hungry", 137)] {
        let twice = await_pod(&namespace, name, "two restarts", |pod| {
            let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
            containers.is_some_and(|containers| containers[0].restart_count >= 2)
        })
        .await;
        assert_eq!(phase(&twice), "Running");
        let last = twice.status.unwrap().container_statuses.unwrap()[0].last_state.clone().unwrap();
        assert_eq!(last.terminated.unwrap().exit_code, exit_code);
    }
}

#[tokio::test]
async fn stop_after_takes_its_time_but_not_more_than_the_grace() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("stop-after").await.unwrap();
    create(&namespace, pod("slow", &[(stages::STOP_AFTER, "1500ms")])).await;
    create(&namespace, pod("stubborn", &[(stages::STOP_AFTER, "5m")])).await;
    let api: Api<Pod> = namespace.api();
    for name in ["slow", "stubborn"] {
        await_pod(&namespace, name, "Running", |pod| phase(pod) == "Running").await;
    }
    let start = Instant::now();
    for name in ["slow", "stubborn"] {
        api.delete(name, &DeleteParams { grace_period_seconds: Some(4), ..DeleteParams::default() }).await.unwrap();
    }
    await_gone(&namespace, "slow").await;
    assert!(seconds(start) > 1.5, "{}", seconds(start));
    await_gone(&namespace, "stubborn").await;
    // Kubernetes stores the deletion time in full seconds.
    assert!(seconds(start) > 3.0, "{}", seconds(start));
}

#[tokio::test]
async fn a_deleted_pod_reports_its_end_before_it_goes() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("stop-status").await.unwrap();
    for (name, annotations, end) in
        [("killed", &[] as &[_], ("Failed", 143)), ("polite", &[(stages::STOP_EXIT_CODE, "0")], ("Succeeded", 0))]
    {
        create(&namespace, pod(name, annotations)).await;
        let running = await_pod(&namespace, name, "Running", |pod| phase(pod) == "Running").await;
        let api: Api<Pod> = namespace.api();
        let version = running.metadata.resource_version.unwrap();
        let mut events = api.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        api.delete(name, &DeleteParams::default()).await.unwrap();
        let deleted = async {
            loop {
                if let Some(WatchEvent::Deleted(pod)) = events.try_next().await.unwrap() {
                    return pod;
                }
            }
        };
        let last = tokio::time::timeout(DEADLINE, deleted).await.unwrap();
        assert_eq!((phase(&last), ended(&last).exit_code), end, "{name}");
    }
}

#[tokio::test]
async fn the_pod_of_a_job_completes_only_when_annotated() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("job").await.unwrap();
    for (name, annotations) in [("told", json!({ stages::COMPLETE_AFTER: "500ms" })), ("untold", json!({}))] {
        let job = json!({
            "metadata": { "name": name },
            "spec": { "template": {
                "metadata": { "annotations": annotations },
                "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "train:1" }] },
            } },
        });
        let job: Job = serde_json::from_value(job).unwrap();
        namespace.api().create(&PostParams::default(), &job).await.unwrap();
    }
    let succeeded = |job: &Job| job.status.as_ref().and_then(|status| status.succeeded).unwrap_or_default();
    await_condition(DEADLINE, namespace.api(), "told", "to succeed", |job: Option<&Job>| {
        job.is_some_and(|job| succeeded(job) == 1)
    })
    .await
    .unwrap();
    let untold: Job = namespace.api().get("untold").await.unwrap();
    assert_eq!(succeeded(&untold), 0);
}
