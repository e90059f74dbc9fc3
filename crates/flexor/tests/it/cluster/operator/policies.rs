//! What jobs ask for beyond pods: suspension, deadlines, clean-up, plans within limits; and the operator's own probes.
//!
//! The parts share a cluster and an operator, and have a namespace each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use flexor_testbed::{ClusterConfig, TestNamespace, cluster_or_skip};
use serde_json::Value;

use super::jobs::{ALL_REDUCE, PARAMETER_SERVERS, apply, await_running, eventually, get, running, served};
use super::{Operator, turn};
use crate::cluster::installed::{in_repository, succeed};

const DLROVER: &str = "elasticjobs.elastic.iml.github.io";
const TORCH: &str = "elasticjobs.elastic.pytorch.org";
const ALL: [&str; 3] = ["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"];

/// A job of TorchElastic with its own rendezvous elsewhere, so without a master.
fn torch(name: &str, policy: &str, annotations: &str) -> String {
    format!(
        "
apiVersion: elastic.pytorch.org/v1alpha1
kind: ElasticJob
metadata: {{name: {name}}}
spec:
  rdzvEndpoint: etcd:2379
  minReplicas: 1
  maxReplicas: 2
  {policy}
  replicaSpecs:
    Worker:
      replicas: 2
      template:
        metadata: {{annotations: {{{annotations}}}}}
        spec: {{containers: [{{name: main, image: x, command: [torchrun, train.py]}}]}}
"
    )
}

fn status(namespace: &TestNamespace<'_>, kind: &str, name: &str) -> Value {
    get(namespace, &[kind, name])["status"].clone()
}

fn await_phase(namespace: &TestNamespace<'_>, operator: &Operator<'_>, (kind, name): (&str, &str), phase: &str) {
    let explain = || format!("{:#} {}", status(namespace, kind, name), operator.log());
    eventually(&format!("{name} to be {phase}"), explain, || {
        (status(namespace, kind, name)["phase"] == phase).then_some(())
    });
}

fn pods(namespace: &TestNamespace<'_>) -> usize {
    get(namespace, &["pods"])["items"].as_array().unwrap().len()
}

fn events(namespace: &TestNamespace<'_>) -> String {
    succeed(&mut namespace.kubectl(["get", "events"]))
}

fn suspended(namespace: &TestNamespace<'_>, operator: &Operator<'_>) {
    apply(namespace, ALL_REDUCE);
    await_running(namespace, operator, &ALL);
    let suspend =
        |is: bool| apply(namespace, &ALL_REDUCE.replace("spec:\n  distr", &format!("spec:\n  suspend: {is}\n  distr")));
    suspend(true);
    await_phase(namespace, operator, (DLROVER, "j"), "Suspended");
    eventually("the pods to go", || operator.log(), || (pods(namespace) == 0).then_some(()));
    suspend(false);
    await_running(namespace, operator, &ALL);
    await_phase(namespace, operator, (DLROVER, "j"), "Running");
}

fn run_policy(namespace: &TestNamespace<'_>, operator: &Operator<'_>) {
    apply(namespace, &torch("late", "activeDeadlineSeconds: 2", ""));
    let completes = "testbed.flexor.dev/complete-after: 500ms";
    apply(namespace, &torch("kept", "cleanPodPolicy: None", completes));
    apply(namespace, &torch("cleaned", "cleanPodPolicy: All", completes));
    apply(namespace, &torch("removed", "ttlSecondsAfterFinished: 1", completes));

    await_phase(namespace, operator, (TORCH, "late"), "Failed");
    assert_eq!(status(namespace, TORCH, "late")["reason"], "JobDeadlineExceeded");
    await_phase(namespace, operator, (TORCH, "kept"), "Succeeded");
    await_phase(namespace, operator, (TORCH, "cleaned"), "Succeeded");
    let of = |job: &str| {
        let pods = get(namespace, &["pods"]);
        let names =
            pods["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with(job)).collect::<Vec<_>>()
    };
    let explain = || format!("{:?} {}", of(""), operator.log());
    fn of_none(names: &[String]) -> Option<()> {
        names.is_empty().then_some(())
    }
    eventually("the pods of the cleaned job to go", explain, || of_none(&of("cleaned")));
    eventually("the pods of the late job to go", explain, || of_none(&of("late")));
    assert_eq!(of("kept"), ["kept-worker-0", "kept-worker-1"]);
    let jobs = || succeed(&mut namespace.kubectl(["get", TORCH]));
    eventually("the job to be removed", || operator.log(), || (!jobs().contains("removed")).then_some(()));
    eventually("its pods to go", explain, || of_none(&of("removed")));
}

/// The API server takes pods as they are, so an edit of a template may be one that Flexor cannot read.
fn unreadable(namespace: &TestNamespace<'_>, operator: &Operator<'_>) {
    let bad = |manifest: &str| {
        let bad = manifest.replace("image: x,", "image: x, ports: [{containerPort: \"22\"}],");
        assert_ne!(bad, manifest);
        bad
    };
    apply(namespace, &bad(&ALL_REDUCE.replace("name: j", "name: odd")));
    apply(namespace, ALL_REDUCE);
    await_running(namespace, operator, &ALL);
    let says = |what: &str| {
        eventually(
            what,
            || format!("{} {}", events(namespace), operator.log()),
            || events(namespace).contains(what).then_some(()),
        );
    };
    says("elasticjob/odd");

    // A job that runs goes on as it was before the edit, also when it loses a pod.
    apply(namespace, &bad(&ALL_REDUCE.replace("replicas: 2", "replicas: 3")));
    says("until that is corrected, the job goes on as it was before the edit");
    let uid = || get(namespace, &["pods", "j-edljob-worker-1"])["metadata"]["uid"].clone();
    let before = uid();
    succeed(&mut namespace.kubectl(["delete", "pod", "j-edljob-worker-1"]));
    await_running(namespace, operator, &ALL);
    assert_ne!(uid(), before);
    apply(namespace, &ALL_REDUCE.replace("replicas: 2", "replicas: 3"));
    await_running(namespace, operator, &[ALL[0], ALL[1], ALL[2], "j-edljob-worker-2"]);
}

fn longest_names(namespace: &TestNamespace<'_>, operator: &Operator<'_>) {
    let long = |length: usize| format!("n{}", "a".repeat(length - 1));
    let (dlrover, torch_elastic, edl) = (long(37), long(50), long(49));
    apply(namespace, &PARAMETER_SERVERS.replace("name: p", &format!("name: {dlrover}")));
    apply(namespace, &torch(&torch_elastic, "", "").replace("  rdzvEndpoint: etcd:2379\n", ""));
    apply(
        namespace,
        &format!(
            "
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {{name: {edl}}}
spec:
  image: x
  trainer: {{entrypoint: python train.py, min-instance: 1, max-instance: 1}}
  pserver: {{min-instance: 1, max-instance: 1}}
"
        ),
    );
    let mut all = vec![
        format!("elasticjob-{dlrover}-dlrover-master"),
        format!("{dlrover}-edljob-chief-0"),
        format!("{dlrover}-edljob-ps-0"),
        format!("{dlrover}-edljob-ps-1"),
        format!("{torch_elastic}-master"),
        format!("{torch_elastic}-worker-0"),
        format!("{torch_elastic}-worker-1"),
        format!("{edl}-master-0"),
        format!("{edl}-pserver-0"),
        format!("{edl}-trainer-0"),
    ];
    all.sort();
    await_running(namespace, operator, &all.iter().map(String::as_str).collect::<Vec<_>>());
}

fn refused_plans(namespace: &TestNamespace<'_>, operator: &Operator<'_>) {
    apply(namespace, PARAMETER_SERVERS);
    let all = ["elasticjob-p-dlrover-master", "p-edljob-chief-0", "p-edljob-ps-0", "p-edljob-ps-1"];
    await_running(namespace, operator, &all);
    for (name, asks, says) in [
        ("many", "replicaResourceSpecs: {worker: {replicas: 20000}}", "20000 replicas of worker"),
        ("unknown", "migratePods: [{name: p-edljob-ps-7, resource: {cpu: \"1\"}}]", "p has no pod p-edljob-ps-7"),
        (
            "single",
            "createPods: [{name: p-edljob-worker-9, type: worker}]",
            "pods are not created and removed one by one",
        ),
    ] {
        apply(
            namespace,
            &format!(
                "{{apiVersion: elastic.iml.github.io/v1alpha1, kind: ScalePlan, metadata: {{name: {name}}}, spec: {{ownerJob: p, {asks}}}}}"
            ),
        );
        await_phase(namespace, operator, ("scaleplan", name), "Failed");
        let status = status(namespace, "scaleplan", name);
        assert!(status["message"].as_str().unwrap().contains(says), "{status}");
    }
    assert_eq!(running(namespace), all);
}

/// Another image is another version: what runs keeps its own.
fn another_image(namespace: &TestNamespace<'_>, operator: &mut Operator<'_>) {
    apply(namespace, ALL_REDUCE);
    await_running(namespace, operator, &ALL);
    let uids = || {
        let pods = get(namespace, &["pods"]);
        let pods = pods["items"].as_array().unwrap().iter();
        pods.map(|pod| pod["metadata"]["uid"].clone()).collect::<Vec<_>>()
    };
    let before = uids();
    operator.image = "flexor:another";
    operator.restart();
    // A pass over the job shows that it was looked at.
    apply(namespace, &ALL_REDUCE.replace("replicas: 2", "replicas: 3"));
    await_running(namespace, operator, &[ALL[0], ALL[1], ALL[2], "j-edljob-worker-2"]);
    assert_eq!(uids()[..3], before);
}

async fn probes(operator: &mut Operator<'_>) {
    for path in ["/live", "/ready"] {
        let (answer, _) = operator.http(path).await;
        assert!(answer.ends_with("200 OK"), "{path}: {answer}");
    }
    let (_, metrics) = operator.http("/metrics").await;
    let count = |name: &str| -> u64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    };
    for name in ["reconciliations", "pod_creates", "pod_deletes", "status_writes"] {
        assert!(count(&format!("flexor_operator_{name}_total")) > 0, "{metrics}");
    }
    assert_eq!(count("flexor_operator_dropped_events_total"), 0);
    assert_eq!(operator.terminate(), Some(0));
}

/// A kind that is installed while the operator runs.
fn later_kind(namespace: &TestNamespace<'_>, operator: &mut Operator<'_>) {
    operator.kill();
    let kubectl = |words: &[&str]| drop(succeed(&mut namespace.kubectl(words)));
    kubectl(&["delete", "crd", "trainingjobs.paddlepaddle.org"]);
    operator.restart();
    assert!(!operator.log().contains("TrainingJob"), "{}", operator.log());
    kubectl(&["apply", "-k", &in_repository("deploy/crds/edl")]);
    kubectl(&["wait", "--for=condition=Established", "crd/trainingjobs.paddlepaddle.org"]);
    apply(
        namespace,
        "
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: later}
spec:
  image: x
  trainer: {entrypoint: python train.py, min-instance: 1, max-instance: 1}
  pserver: {min-instance: 1, max-instance: 1}
",
    );
    await_running(namespace, operator, &["later-master-0", "later-pserver-0", "later-trainer-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_get_what_they_ask_for_and_the_operator_answers_probes() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let mut operator = served(&cluster).await;
    let mut failed = Vec::new();
    macro_rules! part {
        ($name:literal, $part:expr) => {
            let result = catch_unwind(AssertUnwindSafe(|| $part));
            println!("{}: {}", $name, if result.is_ok() { "ok" } else { "FAILED" });
            failed.extend(result.is_err().then_some($name));
        };
    }
    let spaces: Vec<TestNamespace<'_>> = {
        let mut spaces = Vec::new();
        for hint in ["suspended", "policy", "unreadable", "long", "plans", "image", "later"] {
            spaces.push(cluster.namespace(hint).await.unwrap());
        }
        spaces
    };
    part!("a suspended job has no pods and goes on", suspended(&spaces[0], &operator));
    part!("deadline, clean-up and time to live", run_policy(&spaces[1], &operator));
    part!("an unreadable object harms no other job", unreadable(&spaces[2], &operator));
    part!("the longest names", longest_names(&spaces[3], &operator));
    part!("plans beyond limits and for unknown pods", refused_plans(&spaces[4], &operator));
    let probing = || tokio::runtime::Handle::current().block_on(probes(&mut operator));
    part!("probes, metrics and the end", tokio::task::block_in_place(probing));
    operator.restart();
    part!("another image restarts nothing", another_image(&spaces[5], &mut operator));
    part!("a kind that appears later", later_kind(&spaces[6], &mut operator));
    assert!(failed.is_empty(), "{failed:?}");
}
