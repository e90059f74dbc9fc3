//! What users see of a job that the operator serves.

use std::collections::BTreeMap;

use flexor_testbed::{Cluster, ClusterConfig, TestNamespace, cluster_or_skip};
use serde_json::Value;

use super::{Operator, turn};
use crate::cluster::installed::{install, succeed};
pub use crate::condition::eventually;

/// kubectl's JSON.
pub fn get(namespace: &TestNamespace<'_>, words: &[&str]) -> Value {
    let words = ["get"].iter().chain(words).chain(&["-o", "json"]);
    serde_json::from_str(&succeed(&mut namespace.kubectl(words))).unwrap()
}

pub fn apply(namespace: &TestNamespace<'_>, manifest: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("manifest.yaml");
    std::fs::write(&file, manifest).unwrap();
    succeed(&mut namespace.kubectl(["apply", "-f", file.to_str().unwrap()]));
}

/// The names of the pods that run.
pub fn running(namespace: &TestNamespace<'_>) -> Vec<String> {
    let pods = get(namespace, &["pods"]);
    let runs = |pod: &&Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
    let items = pods["items"].as_array().unwrap();
    items.iter().filter(runs).map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The uids of all pods, by name.
pub fn uids(namespace: &TestNamespace<'_>) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pods = get(namespace, &["pods"]);
    let pods = pods["items"].as_array().unwrap().iter();
    pods.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["metadata"]["uid"]))).collect()
}

pub fn await_running(namespace: &TestNamespace<'_>, operator: &Operator<'_>, wanted: &[&str]) {
    let explain = || format!("{:?} run; the operator says {}", running(namespace), operator.log());
    eventually(&format!("{wanted:?} to run"), explain, || (running(namespace) == wanted).then_some(()));
}

pub const ALL_REDUCE: &str = "
apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata: {name: j}
spec:
  distributionStrategy: AllreduceStrategy
  replicaSpecs:
    worker:
      replicas: 2
      template: {spec: {containers: [{name: main, image: x, command: [torchrun, train.py]}]}}
";

pub const PARAMETER_SERVERS: &str = "
apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata: {name: p}
spec:
  distributionStrategy: ParameterServerStrategy
  optimizeMode: manual
  replicaSpecs:
    ps:
      replicas: 2
      template: {spec: {containers: [{name: main, image: x, command: [flexor, ps]}]}}
    worker:
      replicas: 1
      template: {spec: {containers: [{name: main, image: x, command: [flexor, worker]}]}}
";

pub async fn served(cluster: &Cluster) -> Operator<'_> {
    install(cluster, "deploy/default").await;
    Operator::start(cluster, "flexor-system", "flexor-operator").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_gets_its_pods_runs_loses_one_and_gets_it_back() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let operator = served(&cluster).await;
    let namespace = cluster.namespace("first").await.unwrap();
    apply(&namespace, ALL_REDUCE);
    let all = ["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"];
    await_running(&namespace, &operator, &all);
    let job = ["elasticjobs.elastic.iml.github.io", "j"];
    eventually(
        "the phase",
        || operator.log(),
        || (get(&namespace, &job)["status"]["phase"] == "Running").then_some(()),
    );
    let uid = |pod: &str| get(&namespace, &["pod", pod])["metadata"]["uid"].clone();
    let before = uid("j-edljob-worker-1");
    succeed(&mut namespace.kubectl(["delete", "pod", "j-edljob-worker-1"]));
    await_running(&namespace, &operator, &all);
    assert_ne!(uid("j-edljob-worker-1"), before);

    apply(&namespace, &ALL_REDUCE.replace("replicas: 2", "replicas: 3"));
    await_running(&namespace, &operator, &[all[0], all[1], all[2], "j-edljob-worker-2"]);
    apply(&namespace, &ALL_REDUCE.replace("replicas: 2", "replicas: 1"));
    await_running(&namespace, &operator, &all[..2]);

    let events = succeed(&mut namespace.kubectl(["get", "events"]));
    for wanted in ["PodWanted", "j-edljob-worker-1"] {
        assert!(events.contains(wanted), "{wanted} in {events}");
    }
    succeed(&mut namespace.kubectl(["delete", "dej", "j"]));
    eventually(
        "the pods to go",
        || operator.log(),
        || get(&namespace, &["pods,services"])["items"].as_array().unwrap().is_empty().then_some(()),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_job_of_a_fixed_size_gets_its_master_servers_and_trainers() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let operator = served(&cluster).await;
    let namespace = cluster.namespace("edl").await.unwrap();
    apply(
        &namespace,
        "
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: mnist1}
spec:
  image: x
  trainer: {entrypoint: python train.py, min-instance: 2, max-instance: 2}
  pserver: {min-instance: 1, max-instance: 1}
",
    );
    await_running(
        &namespace,
        &operator,
        &["mnist1-master-0", "mnist1-pserver-0", "mnist1-trainer-0", "mnist1-trainer-1"],
    );
    let job = ["trainingjobs.paddlepaddle.org", "mnist1"];
    eventually(
        "the phase",
        || operator.log(),
        || {
            let status = get(&namespace, &job)["status"].clone();
            (status["phase"] == "running" && status["trainers"] == 2).then_some(())
        },
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_without_its_job_or_for_an_unknown_role_fails_and_changes_nothing() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let operator = served(&cluster).await;
    let namespace = cluster.namespace("plans").await.unwrap();
    apply(&namespace, ALL_REDUCE);
    let all = ["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"];
    await_running(&namespace, &operator, &all);
    let plan = |name: &str, job: &str, role: &str| {
        format!(
            "{{apiVersion: elastic.iml.github.io/v1alpha1, kind: ScalePlan, metadata: {{name: {name}}}, spec: {{ownerJob: {job}, replicaResourceSpecs: {{{role}: {{replicas: 3}}}}}}}}"
        )
    };
    for (name, job, role, says) in
        [("lost", "nobody", "worker", "there is no ElasticJob nobody"), ("odd", "j", "ps", "ps")]
    {
        apply(&namespace, &plan(name, job, role));
        let status = eventually(
            name,
            || operator.log(),
            || {
                let status = get(&namespace, &["scaleplan", name])["status"].clone();
                (status["phase"] == "Failed").then_some(status)
            },
        );
        assert_eq!(status["reason"], "PlanRefused");
        assert!(status["message"].as_str().unwrap().contains(says), "{status}");
    }
    assert_eq!(running(&namespace), all);
    apply(&namespace, &plan("good", "j", "worker"));
    await_running(&namespace, &operator, &[all[0], all[1], all[2], "j-edljob-worker-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_that_are_over_or_contradict_themselves_say_so_and_jobs_scale_with_kubectl() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let operator = served(&cluster).await;
    let namespace = cluster.namespace("scale").await.unwrap();
    apply(&namespace, ALL_REDUCE);
    let all = ["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1", "j-edljob-worker-2"];
    await_running(&namespace, &operator, &all[..3]);
    succeed(&mut namespace.kubectl(["scale", "elasticjobs.elastic.iml.github.io", "j", "--replicas=3"]));
    await_running(&namespace, &operator, &all);
    let scale = get(&namespace, &["elasticjobs.elastic.iml.github.io", "j"]);
    assert_eq!(scale["spec"]["replicaSpecs"]["worker"]["replicas"], 3);
    let replicas = || get(&namespace, &["elasticjobs.elastic.iml.github.io", "j"])["status"]["replicas"].clone();
    eventually("the count", || operator.log(), || (replicas() == 3).then_some(()));

    // The label names another job than ownerJob, which decides.
    let plan = |replicas: u32| {
        format!(
            "{{apiVersion: elastic.iml.github.io/v1alpha1, kind: ScalePlan, metadata: {{name: p, labels: {{elasticjob-name: other}}}}, spec: {{ownerJob: j, replicaResourceSpecs: {{worker: {{replicas: {replicas}}}}}}}}}"
        )
    };
    apply(&namespace, &plan(2));
    await_running(&namespace, &operator, &all[..3]);
    let phase = || get(&namespace, &["scaleplan", "p"])["status"]["phase"].clone();
    eventually("the plan to end", || operator.log(), || (phase() == "Succeeded").then_some(()));
    let events =
        || succeed(&mut namespace.kubectl(["get", "events", "--field-selector=involvedObject.kind=ScalePlan"]));
    eventually(
        "the warning",
        || format!("{} {}", events(), operator.log()),
        || events().contains("other").then_some(()),
    );

    apply(&namespace, &plan(3));
    let warning = "the plan is over and is not carried out again";
    eventually(
        "the warning",
        || format!("{} {}", events(), operator.log()),
        || events().contains(warning).then_some(()),
    );
    assert_eq!(running(&namespace), &all[..3]);
}
