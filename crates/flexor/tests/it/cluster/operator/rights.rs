//! The rights of the operator and of training pods: each that is granted is used, and nothing else is granted.

use std::collections::BTreeSet;

use flexor_testbed::{Cluster, ClusterConfig, TestNamespace, cluster_or_skip};
use serde_json::Value;

use super::jobs::{ALL_REDUCE, PARAMETER_SERVERS, apply, await_running, eventually, get, running};
use super::{Operator, turn};
use crate::cluster::installed::{install, succeed};

/// Verb, group and resource.
type Right = (String, String, String);

/// Used by the API server on behalf of the operator, where it checks who may name a job as owner; no request of its own.
const OWNER_CHECK: &str = "/finalizers";
/// Used where masters measure and propose plans. [`super::plans`] plays one, and its operator has these rights only.
const OF_PROPOSED_PLANS: [&str; 2] = ["create", "delete"];

/// All rights that the roles of an overlay grant.
fn granted(cluster: &Cluster, role: &[&str]) -> BTreeSet<Right> {
    let words = [&["get"], role, &["-o", "json"]].concat();
    let role: Value = serde_json::from_str(&succeed(&mut cluster.kubectl(words))).unwrap();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for verb in texts(&rule["verbs"]) {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    rights.insert((verb.clone(), group.clone(), resource));
                }
            }
        }
    }
    rights
}

/// What an account has asked of the API server. What everybody may ask (reviews of one's own rights, discovery) is left
/// out.
fn used(cluster: &Cluster, account: &str) -> BTreeSet<Right> {
    let log = std::fs::read_to_string(cluster.audit_log()).unwrap();
    let mut rights = BTreeSet::new();
    for line in log.lines() {
        let Ok(request) = serde_json::from_str::<Value>(line) else { continue };
        let object = &request["objectRef"];
        if request["user"]["username"] != account || object["resource"].is_null() {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let group = text(&object["apiGroup"]);
        if group == "authorization.k8s.io" {
            continue;
        }
        let resource = match text(&object["subresource"]) {
            part if part.is_empty() => text(&object["resource"]),
            part => format!("{}/{part}", text(&object["resource"])),
        };
        rights.insert((text(&request["verb"]), group, resource));
    }
    rights
}

/// An overlay with the names of its objects, and jobs of each of its kinds.
struct Overlay {
    folder: &'static str,
    namespace: &'static str,
    account: &'static str,
    role: &'static str,
    leader_election: &'static str,
    jobs: &'static [Walk],
    has_plans: bool,
}

/// A job whose pods and services others change.
struct Walk {
    manifest: &'static str,
    pods: &'static [&'static str],
    kind: &'static str,
    name: &'static str,
    /// The role whose pod of rank 0 is lost. Its successor has another name where names are not used twice.
    loses_of: &'static str,
    /// Names are not used twice: the text of its size, and that of a smaller one.
    with_new_names: Option<(&'static str, &'static str)>,
}

const OF_DLROVER: Walk = Walk {
    manifest: ALL_REDUCE,
    pods: &["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"],
    kind: "elasticjobs.elastic.iml.github.io",
    name: "j",
    loses_of: "worker",
    with_new_names: None,
};

const OF_TORCH: Walk = Walk {
    manifest: "
apiVersion: elastic.pytorch.org/v1alpha1
kind: ElasticJob
metadata: {name: t}
spec:
  minReplicas: 1
  maxReplicas: 2
  replicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: main, image: x, command: [torchrun, train.py]}]}}
---
# It ends, and is removed.
apiVersion: elastic.pytorch.org/v1alpha1
kind: ElasticJob
metadata: {name: removed}
spec:
  rdzvEndpoint: etcd:2379
  minReplicas: 1
  maxReplicas: 1
  ttlSecondsAfterFinished: 0
  replicaSpecs:
    Worker:
      replicas: 1
      template:
        metadata: {annotations: {testbed.flexor.dev/complete-after: 100ms}}
        spec: {containers: [{name: main, image: x, command: [torchrun, train.py]}]}
",
    pods: &["t-master", "t-worker-0", "t-worker-1"],
    kind: "elasticjobs.elastic.pytorch.org",
    name: "t",
    loses_of: "Worker",
    with_new_names: None,
};

const OF_EDL: Walk = Walk {
    manifest: "
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: e}
spec:
  image: x
  trainer: {entrypoint: python train.py, min-instance: 2, max-instance: 2}
  pserver: {min-instance: 1, max-instance: 1}
",
    pods: &["e-master-0", "e-pserver-0", "e-trainer-0", "e-trainer-1"],
    kind: "trainingjobs.paddlepaddle.org",
    name: "e",
    loses_of: "trainer",
    with_new_names: Some(("min-instance: 2, max-instance: 2", "min-instance: 1, max-instance: 1")),
};

const DLROVER: Overlay = Overlay {
    folder: "deploy/dlrover",
    namespace: "dlrover",
    account: "dlrover-controller-manager",
    role: "dlrover-manager-role",
    leader_election: "dlrover-leader-election-role",
    jobs: &[OF_DLROVER],
    has_plans: true,
};

const TORCHELASTIC: Overlay = Overlay {
    folder: "deploy/torchelastic",
    namespace: "elastic-job",
    account: "elastic-job-k8s-controller",
    role: "manager-role",
    leader_election: "leader-election-role",
    jobs: &[OF_TORCH],
    has_plans: false,
};

const EDL: Overlay = Overlay {
    folder: "deploy/edl",
    namespace: "paddlecloud",
    account: "training-job-controller",
    role: "training-job-controller-role",
    leader_election: "training-job-controller-leader-election-role",
    jobs: &[OF_EDL],
    has_plans: false,
};

const DEFAULT: Overlay = Overlay {
    folder: "deploy/default",
    namespace: "flexor-system",
    account: "flexor-operator",
    role: "flexor-operator-role",
    leader_election: "flexor-operator-leader-election-role",
    jobs: &[OF_DLROVER, OF_TORCH, OF_EDL],
    has_plans: true,
};

/// Does to a job what makes the operator use its rights: a pod and a service lose their labels, and a pod that is lost
/// cannot be created for a while.
fn walk(namespace: &TestNamespace<'_>, operator: &Operator<'_>, job: &Walk) {
    apply(namespace, job.manifest);
    await_running(namespace, operator, job.pods);
    let uid = get(namespace, &[job.kind, job.name])["metadata"]["uid"].as_str().unwrap().to_owned();
    let of_job = format!("flexor.dev/job-uid={uid}");
    let run_again = || {
        let explain = || format!("{:?} run; the operator says {}", running(namespace), operator.log());
        let pods = || get(namespace, &["pods", "-l", &of_job])["items"].as_array().unwrap().clone();
        let runs = |pod: &Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
        let all_run = |pods: &Vec<Value>| pods.len() == job.pods.len() && pods.iter().all(runs);
        eventually("as many pods to run", explain, || Some(pods()).filter(all_run).map(drop));
    };
    let first = |kind: &str, labels: &str| {
        let found = get(namespace, &[kind, "-l", labels]);
        let metadata = &found["items"].as_array().unwrap().first()?["metadata"];
        metadata["deletionTimestamp"].is_null().then(|| {
            let text = |name: &str| metadata[name].as_str().unwrap().to_owned();
            (text("name"), text("uid"))
        })
    };
    let lost_pod = format!("{of_job},flexor.dev/role={},flexor.dev/rank=0", job.loses_of);
    let has_service = first("service", &of_job).is_some();
    let service = has_service.then_some(("service", of_job.as_str()));
    for (kind, labels) in service.into_iter().chain([("pod", lost_pod.as_str())]) {
        let (name, before) = first(kind, labels).unwrap();
        succeed(&mut namespace.kubectl(["label", kind, &name, "flexor.dev/job-uid-"]));
        let is_another = || first(kind, labels).filter(|(_, now)| *now != before);
        let (successor, _) = eventually(&format!("another {kind} than {name}"), || operator.log(), is_another);
        if kind == "pod" && successor != name {
            // It is nobody's now, as a pod that a ReplicaSet has let go.
            succeed(&mut namespace.kubectl(["delete", kind, &name]));
        }
    }
    run_again();

    // What happens twice is counted in one event.
    for _ in 0..2 {
        apply(namespace, "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 0}}}");
        eventually("the quota to hold", String::new, || {
            (!get(namespace, &["resourcequota", "q"])["status"]["hard"].is_null()).then_some(())
        });
        let (lost, _) = first("pod", &lost_pod).unwrap();
        succeed(&mut namespace.kubectl(["delete", "pod", &lost]));
        let status = || get(namespace, &[job.kind, job.name])["status"].clone();
        let is_refused = || status()["reason"].as_str().is_some_and(|reason| reason.contains("CreateRefused"));
        eventually("the refusal", || format!("{} {}", status(), operator.log()), || is_refused().then_some(()));
        succeed(&mut namespace.kubectl(["delete", "resourcequota", "q"]));
        run_again();
    }
    if let Some((size, less)) = job.with_new_names {
        apply(namespace, &job.manifest.replace(size, less));
        let pods = || get(namespace, &["pods", "-l", &of_job])["items"].as_array().unwrap().len();
        eventually("a pod less", || operator.log(), || (pods() == job.pods.len() - 1).then_some(()));
        // The next name is taken by somebody else's pod.
        let names = succeed(&mut namespace.kubectl(["get", "pods", "-o", "name"]));
        let prefix = format!("pod/{}-{}-", job.name, job.loses_of);
        let used = names.lines().filter_map(|name| name.strip_prefix(&prefix)?.parse::<u32>().ok()).max().unwrap();
        let log = operator.log();
        let last = (used..=used + 9).rev().find(|id| log.contains(&format!("{}-{}-{id}\"", job.name, job.loses_of)));
        let taken = format!("{}-{}-{}", job.name, job.loses_of, last.unwrap() + 1);
        let foreign = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {taken}}}, spec: {{containers: [{{name: main, image: x}}]}}}}"
        );
        apply(namespace, &foreign);
        apply(namespace, job.manifest);
        let says = format!("{taken} exists and is not of this job");
        let events = || succeed(&mut namespace.kubectl(["get", "events"]));
        eventually(&says, || format!("{} {}", events(), operator.log()), || events().contains(&says).then_some(()));
        succeed(&mut namespace.kubectl(["delete", "pod", &taken]));
        run_again();
    }
    succeed(&mut namespace.kubectl(["delete", job.kind, "--all"]));
    eventually("the pods to go", || operator.log(), || running(namespace).is_empty().then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn dlrovers_overlay_grants_what_is_used() {
    grants_what_is_used(&DLROVER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn torchelastics_overlay_grants_what_is_used() {
    grants_what_is_used(&TORCHELASTIC).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn edls_overlay_grants_what_is_used() {
    grants_what_is_used(&EDL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overlay_for_all_kinds_grants_what_is_used() {
    grants_what_is_used(&DEFAULT).await;
}

async fn grants_what_is_used(overlay: &Overlay) {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default().auditing_service_accounts());
    install(&cluster, overlay.folder).await;
    let operator = Operator::start(&cluster, overlay.namespace, overlay.account).await;
    let namespace = cluster.namespace("rights").await.unwrap();
    for job in overlay.jobs {
        walk(&namespace, &operator, job);
    }
    if overlay.has_plans {
        apply(&namespace, PARAMETER_SERVERS);
        let of_p = ["elasticjob-p-dlrover-master", "p-edljob-chief-0", "p-edljob-ps-0", "p-edljob-ps-1"];
        await_running(&namespace, &operator, &of_p);
        let plan = "{apiVersion: elastic.iml.github.io/v1alpha1, kind: ScalePlan, metadata: {name: less}, spec: {ownerJob: p, replicaResourceSpecs: {ps: {replicas: 1}}}}";
        apply(&namespace, plan);
        await_running(&namespace, &operator, &of_p[..3]);
    }
    apply(&namespace, overlay.jobs[0].manifest);
    let explain = || operator.log();
    let pods = || get(&namespace, &["pods"])["items"].as_array().unwrap().clone();
    eventually("pods", explain, || (pods().len() >= overlay.jobs[0].pods.len()).then_some(()));

    let account = format!("system:serviceaccount:{}:{}", overlay.namespace, overlay.account);
    let in_its_namespace = granted(&cluster, &["-n", overlay.namespace, "role", overlay.leader_election]);
    let key = ("get".to_owned(), String::new(), "secrets".to_owned());
    assert_eq!(in_its_namespace, [key.clone()].into(), "its own key");
    let mut granted = granted(&cluster, &["clusterrole", overlay.role]);
    assert!(granted.insert(key), "no Secret of a job is ever read");
    granted.retain(|(verb, _, resource)| {
        let is_of_proposed_plans = resource == "scaleplans" && OF_PROPOSED_PLANS.contains(&verb.as_str());
        !resource.ends_with(OWNER_CHECK) && !is_of_proposed_plans
    });
    let explain = || {
        let used = used(&cluster, &account);
        let only = |of: &BTreeSet<Right>, not: &BTreeSet<Right>| of.difference(not).cloned().collect::<Vec<_>>();
        format!("only granted {:#?}, only used {:#?}", only(&granted, &used), only(&used, &granted))
    };
    eventually("every right to be used", explain, || (used(&cluster, &account) == granted).then_some(()));

    // Masters and workers run under the account of their namespace, which has no right beyond what everybody has.
    for pod in pods() {
        let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
        assert_eq!(account, "default");
    }
    for verb in ["get", "list", "watch", "create", "update", "patch", "delete"] {
        for resource in ["pods", "secrets", "configmaps", "services", "pods/exec", overlay.jobs[0].kind] {
            let of_pods = format!("--as=system:serviceaccount:{}:default", namespace.name());
            let answer = namespace.kubectl(["auth", "can-i", verb, resource, &of_pods]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "no", "{verb} {resource}");
        }
    }
}
