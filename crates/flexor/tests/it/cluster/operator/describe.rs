//! What `kubectl describe` says of jobs that run, and of jobs that cannot.

use std::collections::BTreeSet;

use flexor_testbed::{ClusterConfig, TestNamespace, cluster_or_skip};
use serde_json::Value;

use super::jobs::{ALL_REDUCE, apply, eventually, get, served};
use super::{Operator, turn};
use crate::cluster::installed::succeed;

const KIND: &str = "elasticjobs.elastic.iml.github.io";

/// An all-reduce job with more in its worker's template.
fn with(template: &str) -> String {
    let changed = ALL_REDUCE.replace("template: {spec:", &format!("template: {{{template} spec:"));
    assert_ne!(changed, ALL_REDUCE);
    changed
}

/// The part of `kubectl describe` that people read: what the status says, and the events. Times, and how often an event
/// was seen, differ from run to run.
fn described(namespace: &TestNamespace<'_>, kind: &str, name: &str) -> String {
    let all = succeed(&mut namespace.kubectl(["describe", kind, name]));
    let (object, events) = all.split_once("\nEvents:").unwrap_or_else(|| panic!("no events in {all}"));
    let wanted = ["Message:", "Reason:", "Phase:", "Type:", "Status:"];
    let status = object.split_once("\nStatus:").unwrap_or_else(|| panic!("no status in {object}")).1;
    // What only the controller reads comes first, in alphabetical order with the rest.
    let mut is_own = false;
    let mut text = String::from("Status:\n");
    for line in status.lines() {
        if line.starts_with("  ") && !line.starts_with("   ") {
            is_own = line.starts_with("  Flexor:") || line.starts_with("  Targets:");
        }
        if !is_own && wanted.iter().any(|key| line.trim_start().starts_with(key)) {
            text.push_str(line);
            text.push('\n');
        }
    }
    // Columns are two spaces apart or more: type, reason, age, reporter, message.
    let event = |line: &str| -> String {
        let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
        let [type_, reason, _age, from, message] = columns[..] else { panic!("no event: {line:?}") };
        format!("  {type_} {reason} {from}: {message}")
    };
    let events: BTreeSet<String> = events.lines().skip(3).filter(|line| !line.trim().is_empty()).map(event).collect();
    text.push_str("Events:\n");
    for event in events {
        text.push_str(&event);
        text.push('\n');
    }
    text
}

/// Waits until the job's status is as wanted.
fn await_status(
    namespace: &TestNamespace<'_>,
    operator: &Operator<'_>,
    (kind, name): (&str, &str),
    is_reached: impl Fn(&Value) -> bool,
) {
    let status = || get(namespace, &[kind, name])["status"].clone();
    let explain = || format!("{:#} {}", status(), operator.log());
    eventually(name, explain, || is_reached(&status()).then_some(()));
}

/// Events are written beside the loop, so the last one may come after the status.
fn assert_described(name: &str, namespace: &TestNamespace<'_>, kind: &str, job: &str, last_event: &str) -> String {
    eventually(
        last_event,
        || described(namespace, kind, job),
        || described(namespace, kind, job).contains(last_event).then_some(()),
    );
    let text = described(namespace, kind, job);
    println!("--- {name}\n{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn describe_says_what_runs_and_what_is_wrong() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let operator = served(&cluster).await;
    let space = async |hint: &str| cluster.namespace(hint).await.unwrap();

    let running = space("runs").await;
    apply(
        &running,
        "
apiVersion: elastic.pytorch.org/v1alpha1
kind: ElasticJob
metadata: {name: imagenet}
spec:
  minReplicas: 1
  maxReplicas: 2
  replicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: main, image: x, command: [torchrun, train.py]}]}}
",
    );
    let unschedulable = space("no-room").await;
    apply(
        &unschedulable,
        // One worker, because the event says how many wait at that moment.
        &ALL_REDUCE
            .replace("replicas: 2", "replicas: 1")
            .replace("image: x,", "image: x, resources: {requests: {cpu: 5000}, limits: {cpu: 5000}},"),
    );
    let crashing = space("crashes").await;
    apply(&crashing, &with("metadata: {annotations: {testbed.flexor.dev/fail-after: 500ms}},"));
    let out_of_memory = space("oom").await;
    apply(
        &out_of_memory,
        &with("metadata: {annotations: {testbed.flexor.dev/oom-after: 500ms}},")
            .replace("image: x,", "image: x, resources: {requests: {memory: 1Gi}, limits: {memory: 1Gi}},"),
    );
    let quota = space("quota").await;
    apply(&quota, "{apiVersion: v1, kind: ResourceQuota, metadata: {name: team-a}, spec: {hard: {pods: 1}}}");
    eventually("the quota to hold", String::new, || {
        (!get(&quota, &["resourcequota", "team-a"])["status"]["hard"].is_null()).then_some(())
    });
    apply(&quota, ALL_REDUCE);
    let restricted = space("restricted").await;
    let level = "pod-security.kubernetes.io/enforce=restricted";
    succeed(&mut cluster.kubectl(["label", "namespace", restricted.name(), level]));
    apply(&restricted, ALL_REDUCE);
    let class = space("class").await;
    apply(&class, &ALL_REDUCE.replace("template: {spec: {", "template: {spec: {priorityClassName: urgent, "));

    let job = (KIND, "j");
    let is_over = |status: &Value| status["phase"] == "Failed";
    let lacks = |reason: &'static str| move |status: &Value| status["reason"] == reason;
    let torch = "elasticjobs.elastic.pytorch.org";
    await_status(&running, &operator, (torch, "imagenet"), |status| status.to_string().contains("ElasticJobRunning"));
    insta::assert_snapshot!(
        "running",
        assert_described("running", &running, torch, "imagenet", "Created pod: imagenet-worker-1")
    );
    await_status(&unschedulable, &operator, job, lacks("Unschedulable"));
    insta::assert_snapshot!(
        "unschedulable",
        assert_described("unschedulable", &unschedulable, KIND, "j", "Unschedulable")
    );
    await_status(&quota, &operator, job, lacks("CreateRefused"));
    insta::assert_snapshot!("quota", assert_described("quota", &quota, KIND, "j", "CreateRefused"));
    await_status(&class, &operator, job, lacks("CreateRefused"));
    insta::assert_snapshot!("priority_class", assert_described("class", &class, KIND, "j", "CreateRefused"));
    await_status(&restricted, &operator, job, lacks("CreateRefused"));
    insta::assert_snapshot!("pod_security", assert_described("restricted", &restricted, KIND, "j", "CreateRefused"));
    await_status(&crashing, &operator, job, is_over);
    insta::assert_snapshot!("crash", assert_described("crash", &crashing, KIND, "j", "JobFailed"));
    await_status(&out_of_memory, &operator, job, is_over);
    insta::assert_snapshot!("out_of_memory", assert_described("oom", &out_of_memory, KIND, "j", "JobFailed"));
}
