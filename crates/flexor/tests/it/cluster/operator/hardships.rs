//! Conflicts, losses in a row and what a relaunch costs, as the API server's audit log has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flexor_dialects::dlrover::ElasticJob;
use flexor_testbed::{Cluster, ClusterConfig, TestNamespace, cluster_or_skip};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::jobs::{ALL_REDUCE, apply, await_running, eventually, get, served};
use super::{Operator, turn};
use crate::cluster::installed::succeed;

const KIND: &str = "elasticjobs.elastic.iml.github.io";
const ALL: [&str; 3] = ["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"];
/// The operator has nothing to do by then; statuses that only inform are written within a second or two.
const CALM: Duration = Duration::from_secs(4);
/// So many conflicts are awaited.
const CONFLICTS: usize = 3;
/// Writers that change a job at once, and the most that each of them writes.
const LANES: u32 = 4;
const MOST_WRITES: u32 = 50_000;

/// What the operator has asked of the API server in a namespace, and which lists it has read anywhere, with the
/// answers.
fn audited(cluster: &Cluster, namespace: &str) -> Vec<Value> {
    let log = std::fs::read_to_string(cluster.audit_log()).unwrap();
    let requests = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = requests.filter(|request| {
        let object = &request["objectRef"];
        request["user"]["username"] == "system:serviceaccount:flexor-system:flexor-operator"
            && request["verb"] != "watch"
            && (object["namespace"] == namespace || request["verb"] == "list")
    });
    ours.collect()
}

/// Verb and resource of each request of the operator.
fn requests(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let named = audited(cluster, namespace).into_iter().map(|request| {
        let object = &request["objectRef"];
        let (resource, part) = (text(&object["resource"]), text(&object["subresource"]));
        format!("{} {resource}{part}", text(&request["verb"]))
    });
    named.collect()
}

/// What was asked meanwhile, and how often.
fn asked(cluster: &Cluster, namespace: &TestNamespace<'_>, act: impl FnOnce()) -> BTreeMap<String, usize> {
    std::thread::sleep(CALM);
    let before = requests(cluster, namespace.name()).len();
    act();
    std::thread::sleep(CALM);
    let mut counts = BTreeMap::new();
    for request in requests(cluster, namespace.name()).split_off(before) {
        *counts.entry(request).or_insert(0) += 1;
    }
    counts
}

fn relaunch(cluster: &Cluster, namespace: &TestNamespace<'_>, operator: &Operator<'_>) {
    apply(namespace, ALL_REDUCE);
    await_running(namespace, operator, &ALL);
    let asked = asked(cluster, namespace, || {
        succeed(&mut namespace.kubectl(["delete", "pod", "j-edljob-worker-1"]));
        await_running(namespace, operator, &ALL);
    });
    println!("a relaunch: {asked:?}");
    let times = |request: &str| asked.get(request).copied().unwrap_or_default();
    assert_eq!((times("create pods"), times("create events")), (1, 1), "{asked:?}");
    assert!(times("delete pods") <= 1 && times("patch elasticjobsstatus") <= 2, "{asked:?}");
    assert!(!asked.keys().any(|request| request.starts_with("list") || request.starts_with("get")), "{asked:?}");
    let events = succeed(&mut namespace.kubectl(["get", "events"]));
    let says = "its slot is filled again (1 restart): PodDeleted: ";
    assert!(events.contains(says), "{events}");
}

/// How many writes of a job's status the operator was refused because the job had changed since it was read. The failed
/// test of a JSON Patch has the code 422.
fn conflicts_of(cluster: &Cluster, namespace: &str) -> usize {
    let is_conflict = |request: &&Value| {
        let object = &request["objectRef"];
        object["resource"] == "elasticjobs"
            && object["subresource"] == "status"
            && [409, 422].iter().any(|code| request["responseStatus"]["code"] == *code)
    };
    audited(cluster, namespace).iter().filter(is_conflict).count()
}

/// Writes annotations until `ends` is set. Each makes a new version of the job, so that writes of its status
/// conflict.
async fn annotate(jobs: Api<ElasticJob>, lane: u32, ends: Arc<AtomicBool>) {
    for number in 0..MOST_WRITES {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("lane-{lane}");
        let note = json!({ "metadata": { "annotations": { key: number.to_string() } } });
        jobs.patch_metadata("j", &PatchParams::default(), &Patch::Merge(note)).await.unwrap();
    }
}

/// A job is changed all the time while its size is, until the operator has met conflicts. Then it comes to rest.
async fn conflicts(cluster: &Cluster, namespace: &TestNamespace<'_>, operator: &Operator<'_>) {
    apply(namespace, ALL_REDUCE);
    await_running(namespace, operator, &ALL);
    let resize = |count| succeed(&mut namespace.kubectl(["patch", KIND, "j", "--type=merge", "-p", &replicas(count)]));
    let ends = Arc::new(AtomicBool::new(false));
    let lanes = (0..LANES).map(|lane| tokio::spawn(annotate(namespace.api(), lane, Arc::clone(&ends))));
    let lanes: Vec<_> = lanes.collect();
    let mut sizes = [3, 4, 2].into_iter().cycle();
    let met = eventually(
        "conflicts",
        || operator.log(),
        || {
            // Every size is written into the status.
            resize(sizes.next().unwrap());
            Some(conflicts_of(cluster, namespace.name())).filter(|met| *met >= CONFLICTS)
        },
    );
    ends.store(true, Ordering::Relaxed);
    for lane in lanes {
        lane.await.unwrap();
    }
    println!("{met} conflicts");

    resize(4);
    await_running(namespace, operator, &[ALL[0], ALL[1], ALL[2], "j-edljob-worker-2", "j-edljob-worker-3"]);
    succeed(&mut namespace.kubectl(["delete", "pod", "j-edljob-worker-0"]));
    resize(2);
    await_running(namespace, operator, &ALL);
    // Kubernetes' own controllers may warn of addresses that change too often for them.
    let of_ours = "--field-selector=type=Warning,involvedObject.kind!=Service,involvedObject.kind!=Endpoints";
    let warnings = succeed(&mut namespace.kubectl(["get", "events", of_ours]));
    assert_eq!(warnings, "", "after {met} conflicts");
}

fn replicas(count: u32) -> String {
    format!("{{\"spec\": {{\"replicaSpecs\": {{\"worker\": {{\"replicas\": {count}}}}}}}}}")
}

/// Thirty of 32 workers are deleted one after another.
async fn many_losses(cluster: &Cluster, namespace: &TestNamespace<'_>, operator: &Operator<'_>) {
    apply(namespace, &ALL_REDUCE.replace("replicas: 2", "replicas: 32"));
    let runs = || get(namespace, &["pods", "--field-selector=status.phase=Running"])["items"].as_array().unwrap().len();
    eventually("all to run", || operator.log(), || (runs() == 33).then_some(()));
    std::thread::sleep(CALM);
    let pods = namespace.api::<Pod>();
    let uids = async || -> BTreeMap<String, String> {
        let list = pods.list(&ListParams::default()).await.unwrap();
        list.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap())).collect()
    };
    let before = uids().await;
    let lost: BTreeSet<String> = (0..30).map(|number| format!("j-edljob-worker-{number}")).collect();
    for pod in &lost {
        pods.delete(pod, &DeleteParams::default()).await.unwrap();
    }
    let deleted = Instant::now();
    let took = loop {
        let now = uids().await;
        let missing = lost.iter().filter(|pod| now.get(*pod).is_none_or(|uid| *uid == before[*pod])).count();
        if missing == 0 {
            break deleted.elapsed();
        }
        assert!(deleted.elapsed() < Duration::from_secs(60), "{missing} are missing: {}", operator.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    println!("30 lost pods are back {} ms after the last was deleted", took.as_millis());
    let now = uids().await;
    assert!(before.iter().all(|(pod, uid)| lost.contains(pod) || now[pod] == *uid), "the others were not touched");
    std::thread::sleep(CALM);
    let created = requests(cluster, namespace.name()).iter().filter(|request| *request == "create pods").count();
    assert_eq!(created, 33 + lost.len(), "each was created once again: {}", operator.log());
}

/// Services: one that lost its label, one that is refused, one of a stranger.
fn services(namespace: &TestNamespace<'_>, operator: &Operator<'_>) {
    let quota = |services: u32| {
        format!(
            "{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q}}, spec: {{hard: {{services: {services}}}}}}}"
        )
    };
    apply(namespace, &quota(0));
    eventually("the quota to hold", String::new, || {
        (!get(namespace, &["resourcequota", "q"])["status"]["hard"].is_null()).then_some(())
    });
    apply(namespace, ALL_REDUCE);
    let status = || get(namespace, &[KIND, "j"])["status"].clone();
    eventually(
        "the refused service to show",
        || format!("{:#} {}", status(), operator.log()),
        || {
            let message = status()["message"].as_str().unwrap_or_default().to_owned();
            (message.starts_with("service ") && message.contains("exceeded quota")).then_some(())
        },
    );
    apply(namespace, &quota(10));
    await_running(namespace, operator, &ALL);
    let one = || {
        let services = get(namespace, &["services"]);
        let service = services["items"].as_array().unwrap().first()?.clone();
        Some((service["metadata"]["name"].as_str()?.to_owned(), service["metadata"]["uid"].clone()))
    };
    let (name, uid) = one().unwrap();
    succeed(&mut namespace.kubectl(["label", "service", &name, "flexor.dev/job-uid-"]));
    eventually("another service", || operator.log(), || one().filter(|(_, now)| *now != uid).map(drop));
    let labels = get(namespace, &["service", &name])["metadata"]["labels"].clone();
    assert!(labels["flexor.dev/job-uid"].is_string(), "{labels}");

    // It is somebody else's now.
    let patch = r#"{"metadata": {"ownerReferences": null}}"#;
    succeed(&mut namespace.kubectl(["patch", "service", &name, "--type=merge", "-p", patch]));
    let says = format!("{name} exists and is not of this job");
    let events = || succeed(&mut namespace.kubectl(["get", "events"]));
    eventually(&says, || format!("{} {}", events(), operator.log()), || events().contains(&says).then_some(()));
    succeed(&mut namespace.kubectl(["delete", "service", &name]));
    eventually(
        "the service",
        || operator.log(),
        || {
            let services = get(namespace, &["services"]);
            let services = services["items"].as_array().unwrap();
            services.iter().any(|service| service["metadata"]["ownerReferences"].is_array()).then_some(())
        },
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn losses_conflicts_and_services_cost_little_and_alarm_nobody() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default().auditing_service_accounts());
    let operator = served(&cluster).await;
    let space = async |hint: &str| cluster.namespace(hint).await.unwrap();
    relaunch(&cluster, &space("relaunch").await, &operator);
    many_losses(&cluster, &space("losses").await, &operator).await;
    conflicts(&cluster, &space("conflicts").await, &operator).await;
    services(&space("services").await, &operator);
}
