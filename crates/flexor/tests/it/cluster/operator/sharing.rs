//! Jobs that the planner sizes, under faults: the operator is killed, a job is too large, a PriorityClass is missing, a
//! quota refuses pods.

use flexor_testbed::{ClusterConfig, NodeGroup, TestNamespace, cluster_or_skip};

use super::jobs::{apply, await_running, eventually, get, running, served};
use super::{Operator, turn};
use crate::cluster::installed::succeed;

/// Two nodes for four pods each, with a little room for the controller.
fn small_cluster() -> ClusterConfig {
    ClusterConfig::with_nodes([NodeGroup::new("node", 2).cpu("4100m").memory("64Gi")])
}

/// A job of pods of one core: a master, a server, and so many trainers.
fn job(name: &str, min: u32, max: u32) -> String {
    let one = "resources: {requests: {cpu: 1, memory: 64Mi}}";
    format!(
        "apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {{name: {name}}}
spec:
  image: flexor:latest
  fault_tolerant: true
  trainer: {{entrypoint: train, min-instance: {min}, max-instance: {max}, {one}}}
  pserver: {{min-instance: 1, max-instance: 1, {one}}}
  master: {{{one}}}
"
    )
}

/// The names of a job's pods, with trainers of these numbers.
fn pods(job: &str, trainers: impl IntoIterator<Item = u32>) -> Vec<String> {
    let own = ["master-0", "pserver-0"].map(|name| format!("{job}-{name}"));
    own.into_iter().chain(trainers.into_iter().map(|number| format!("{job}-trainer-{number}"))).collect()
}

fn await_pods(namespace: &TestNamespace<'_>, operator: &Operator<'_>, wanted: &[Vec<String>]) {
    let wanted = wanted.concat();
    await_running(namespace, operator, &wanted.iter().map(String::as_str).collect::<Vec<_>>());
}

fn await_reason(namespace: &TestNamespace<'_>, operator: &Operator<'_>, job: &str, reason: &str, message: &str) {
    let status = || get(namespace, &["trainingjob", job])["status"].clone();
    let explain = || format!("{:#}\n{}", status(), operator.log());
    eventually(&format!("{job} to say {reason}"), explain, || {
        let status = status();
        let says = status["message"].as_str().unwrap_or_default().contains(message);
        (status["reason"] == reason && says).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planner_that_is_killed_after_every_action_keeps_its_promises() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(small_cluster());
    let mut operator = served(&cluster).await;
    let namespace = cluster.namespace("promises").await.unwrap();
    operator.kill();
    apply(&namespace, &job("a", 1, 8));
    operator.run_in_short_lives(1);
    assert_eq!(running(&namespace), pods("a", 0..6), "all of the cluster");
    // Four pods have to go before the first of the second job is created.
    apply(&namespace, &job("b", 2, 2));
    operator.run_in_short_lives(1);
    assert_eq!(running(&namespace), [pods("a", 0..2), pods("b", 0..2)].concat());
    operator.restart();
    await_pods(&namespace, &operator, &[pods("a", 0..2), pods("b", 0..2)]);
    succeed(&mut namespace.kubectl(["delete", "trainingjob", "b"]));
    eventually("the first job to grow", || operator.log(), || (running(&namespace).len() == 8).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_lacks_is_in_its_status() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(small_cluster());
    let operator = served(&cluster).await;
    let namespace = cluster.namespace("lacking").await.unwrap();
    apply(&namespace, &job("large", 20, 20));
    await_reason(&namespace, &operator, "large", "JobHeld", "needs 22 cores; the nodes that accept it have 8");
    // Two jobs that each fit only alone: the older one runs, and the other has no pod.
    apply(&namespace, &job("first", 4, 4));
    await_pods(&namespace, &operator, &[pods("first", 0..4)]);
    apply(&namespace, &job("second", 4, 4));
    await_reason(&namespace, &operator, "second", "JobHeld", "needs 6 cores");
    assert_eq!(running(&namespace), pods("first", 0..4));
    succeed(&mut namespace.kubectl(["delete", "trainingjob", "first"]));
    await_pods(&namespace, &operator, &[pods("second", 0..4)]);
    succeed(&mut namespace.kubectl(["delete", "trainingjob", "second", "large"]));

    succeed(&mut cluster.kubectl(["delete", "priorityclass", "flexor-surplus"]));
    apply(&namespace, &job("elastic", 1, 3));
    await_reason(&namespace, &operator, "elastic", "CreateRefused", "flexor-surplus");
    assert_eq!(running(&namespace), pods("elastic", 0..1));
    let class = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: flexor-surplus}, value: -100, preemptionPolicy: Never}";
    apply(&namespace, class);
    eventually("the job to grow", || operator.log(), || (running(&namespace).len() == 5).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_of_one_tenant_keeps_no_room_from_another() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(small_cluster());
    let operator = served(&cluster).await;
    let (poor, other) = (cluster.namespace("poor").await.unwrap(), cluster.namespace("other").await.unwrap());
    apply(&poor, "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 1}}}");
    eventually("the quota to hold", String::new, || {
        (!get(&poor, &["resourcequota", "q"])["status"]["hard"].is_null()).then_some(())
    });
    apply(&poor, &job("refused", 4, 4));
    await_reason(&poor, &operator, "refused", "CreateRefused", "exceeded quota");
    apply(&other, &job("waits", 4, 4));
    await_reason(&other, &operator, "waits", "JobHeld", "needs 6 cores");
    // A minute later the room of the first is given to the second.
    await_pods(&other, &operator, &[pods("waits", 0..4)]);
    await_reason(&poor, &operator, "refused", "JobHeld", "refused");
    succeed(&mut poor.kubectl(["delete", "resourcequota", "q"]));
    succeed(&mut other.kubectl(["delete", "trainingjob", "waits"]));
    eventually("the first to run", || operator.log(), || (running(&poor).len() == 6).then_some(()));
}
