//! Faults of containers and namespaces, on one cluster: what the job's status says, and that the job goes on where it can.

use std::fs;

use flexor_testbed::{Cluster, nodes_or_skip, skip, torch_or_skip};
use serde_json::Value;

use super::fixture;
use crate::cluster::installed::{apply_text, install, succeed};
use crate::condition::eventually;

const KIND: &str = "elasticjobs.elastic.iml.github.io";
/// A job that has done so many more is not disturbed.
const MORE_STEPS: u64 = 200;

/// A namespace of the cluster, by its name.
struct Space<'a> {
    cluster: &'a Cluster,
    name: &'static str,
}

impl<'a> Space<'a> {
    /// Creates the namespace, with these labels.
    fn new(cluster: &'a Cluster, name: &'static str, labels: &str) -> Self {
        apply_text(
            cluster,
            &format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{{labels}}}}}}}"),
        );
        Self { cluster, name }
    }

    fn kubectl(&self, words: &[&str]) -> String {
        succeed(&mut self.cluster.kubectl(["--namespace", self.name].iter().chain(words)))
    }

    fn apply(&self, manifest: &str) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("manifest.yaml");
        fs::write(&file, manifest).unwrap();
        self.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    }

    fn get(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = [&["get"], words, &["-o", "json"]].concat();
        serde_json::from_str(&self.kubectl(&words)).unwrap()
    }

    fn status(&self, job: &str) -> Value {
        self.get(&[KIND, job])["status"].clone()
    }

    fn log(&self, pod: &str) -> String {
        // A container that does not run yet has no log.
        let output = self.cluster.kubectl(["--namespace", self.name, "logs", pod]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The last step that a program says it has done.
    fn last_step(&self, pod: &str) -> Option<u64> {
        let log = self.log(pod);
        let line = log.lines().rev().find(|line| line.contains(" loss "))?;
        line.split(" step ").nth(1)?.split(' ').next()?.parse().ok()
    }

    /// The uids and restarts of all pods, by name.
    fn pods(&self) -> Vec<(String, String, u64)> {
        let pods = self.get(&["pods"]);
        let of = |pod: &Value| {
            let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0);
            let text = |key: &str| pod["metadata"][key].as_str().unwrap().to_owned();
            (text("name"), text("uid"), restarts)
        };
        pods["items"].as_array().unwrap().iter().map(of).collect()
    }

    fn await_message(&self, job: &str, wanted: &str) {
        let message = || self.status(job)["message"].as_str().unwrap_or_default().to_owned();
        let explain = || format!("{:#}\n{}", self.status(job), operator_log(self.cluster));
        eventually(&format!("{job}: {wanted}"), explain, || message().contains(wanted).then_some(()));
    }

    fn await_log(&self, pod: &str, wanted: &str) {
        let explain = || format!("{}\n{:#}", self.log(pod), self.get(&["pod", pod])["status"]);
        eventually(&format!("{wanted} in the log of {pod}"), explain, || self.log(pod).contains(wanted).then_some(()));
    }

    fn remove(self) {
        self.kubectl(&["delete", KIND, "--all", "--wait=false"]);
        self.kubectl(&["delete", "pods", "--all", "--grace-period=1"]);
    }
}

fn operator_log(cluster: &Cluster) -> String {
    let words = ["-n", "flexor-system", "logs", "deployment/flexor-operator", "--tail=60"];
    let output = cluster.kubectl(words).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A job of DLRover's kind; `worker` is its worker's pod as YAML, and `more` stands beside its replicas.
fn job(name: &str, replicas: u32, more: &str, worker: &str) -> String {
    format!(
        "apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata: {{name: {name}}}
spec:
  distributionStrategy: AllreduceStrategy
  replicaSpecs:
    worker:
      replicas: {replicas}
      autoScale: false
      {more}
      template:
        spec: {worker}
"
    )
}

/// A container with torch that runs these words.
fn container(words: &str, more: &str) -> String {
    format!("{{name: main, image: 'torch-mnist:latest', imagePullPolicy: IfNotPresent, command: [{words}]{more}}}")
}

/// The pods share no disk, so a checkpoint of one would be of another step than its successor's: none is written.
const TRAIN: &str =
    "torchrun, --nproc-per-node=1, train.py, --epochs=100000, --checkpoint=/tmp/model.pt, --checkpoint-every=100000000";

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_says_why_and_costs_only_what_it_hit() {
    let _turn = fixture::turn().await;
    let torch = torch_or_skip!();
    if flexor_testbed::images::torch_packages(&torch).is_none() {
        skip!("needs Python 3.11 as `python3`: torch is installed for it, and containers have that version");
    }
    let cluster = nodes_or_skip!(fixture::config(2, &torch));
    fixture::add_images(&cluster);
    install(&cluster, "deploy/default").await;
    let log = || operator_log(&cluster);
    eventually("the operator to serve", log, || log().contains("serving kind=\"ElasticJob\"").then_some(()));

    programs_that_fail(&Space::new(&cluster, "failing", ""));
    pods_that_do_not_start(Space::new(&cluster, "waiting", ""));
    on_the_network_of_the_host(Space::new(&cluster, "host", ""));
    in_a_restricted_namespace(Space::new(&cluster, "strict", "pod-security.kubernetes.io/enforce: restricted"));
    without_rank_0_and_without_an_operator(&cluster);
}

fn programs_that_fail(space: &Space<'_>) {
    // The exception is the job's message, although the container's log ends with torchrun's own.
    let program = "from torch.distributed.elastic.multiprocessing.errors import record\n\
                   class NoDigit(ValueError): pass\n\
                   @record\n\
                   def main(): raise NoDigit('label 12 of record 7 is no digit')\n\
                   main()\n";
    let unrecorded = "raise ValueError('label 12 of record 7 is no digit')\n";
    space.kubectl(&[
        "create",
        "configmap",
        "program",
        &format!("--from-literal=crash.py={program}"),
        &format!("--from-literal=unrecorded.py={unrecorded}"),
    ]);
    for name in ["crash", "unrecorded"] {
        let crash = container(
            &format!("torchrun, --nproc-per-node=1, /program/{name}.py"),
            ", volumeMounts: [{name: program, mountPath: /program}]",
        );
        let pod = format!(
            "{{securityContext: {{runAsUser: 1000}}, containers: [{crash}], volumes: [{{name: program, configMap: {{name: program}}}}]}}"
        );
        space.apply(&job(name, 1, "restartCount: 0", &pod));
    }
    let words = "python3, -c, 'x = bytearray(400 << 20); import time; time.sleep(3600)'";
    let limited = container(words, ", resources: {limits: {memory: 64Mi}, requests: {memory: 64Mi}}");
    space.apply(&job("greedy", 1, "restartCount: 0", &format!("{{containers: [{limited}]}}")));
    space.await_message("greedy", "OOMKilled");
    space.await_message("crash", "NoDigit: label 12 of record 7 is no digit");
    space.await_message("unrecorded", "its traceback is in the pod's log");
    for job in ["crash", "unrecorded", "greedy"] {
        eventually(job, || space.status(job).to_string(), || (space.status(job)["phase"] == "Failed").then_some(()));
    }
}

fn pods_that_do_not_start(space: Space<'_>) {
    let pod = container(TRAIN, "").replace("torch-mnist:latest", "flexor.invalid/no-such-image:1");
    space.apply(&job("missing", 1, "", &format!("{{containers: [{pod}]}}")));
    let pod = container(TRAIN, ", volumeMounts: [{name: data, mountPath: /data}]");
    let pod = format!("{{containers: [{pod}], volumes: [{{name: data, configMap: {{name: not-there-yet}}}}]}}");
    space.apply(&job("stuck", 1, "", &pod));
    space.await_message("missing", "no-such-image");
    let waits = || (space.get(&["pod", "stuck-edljob-worker-0"])["status"]["phase"] == "Pending").then_some(());
    eventually("stuck to wait", || space.status("stuck").to_string(), waits);
    assert_ne!(space.status("stuck")["phase"], "Running", "{:#}", space.status("stuck"));
    let before = space.pods();
    space.kubectl(&["create", "configmap", "not-there-yet", "--from-literal=a=b"]);
    space.await_log("stuck-edljob-worker-0", "rank 0/1 restart 0 starts");
    assert_eq!(space.pods(), before, "no pod was made again while it waited");
    space.remove();
}

/// The pods of two jobs share the network of one node: their sidecars do not meet.
fn on_the_network_of_the_host(space: Space<'_>) {
    let nodes = space.get(&["nodes"]);
    let node = nodes["items"][0]["metadata"]["name"].as_str().unwrap();
    let pod = format!("{{hostNetwork: true, nodeName: {node}, containers: [{}]}}", container(TRAIN, ""));
    for name in ["one", "two"] {
        space.apply(&job(name, 1, "", &pod));
    }
    for name in ["one", "two"] {
        space.await_log(&format!("{name}-edljob-worker-0"), "rank 0/1 restart 0 starts");
    }
    space.remove();
}

fn in_a_restricted_namespace(space: Space<'_>) {
    space.apply(
        "
{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 3, requests.cpu: 2, limits.memory: 6Gi}}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: r}
spec: {limits: [{type: Container, default: {memory: 1Gi, cpu: 1}, defaultRequest: {memory: 64Mi, cpu: 50m}, max: {memory: 2Gi, cpu: 2}}]}
",
    );
    let secure = ", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}";
    let pod = format!(
        "{{securityContext: {{runAsNonRoot: true, runAsUser: 1000, seccompProfile: {{type: RuntimeDefault}}}}, containers: [{}]}}",
        container(TRAIN, secure)
    );
    space.apply(&job("tenant", 2, "", &pod));
    space.await_log("tenant-edljob-worker-0", "starts at step");
    // A third worker would be a fourth pod.
    space.kubectl(&[
        "patch",
        KIND,
        "tenant",
        "--type=merge",
        "-p",
        "{\"spec\":{\"replicaSpecs\":{\"worker\":{\"replicas\":3}}}}",
    ]);
    space.await_message("tenant", "exceeded quota");
    space.remove();
}

fn without_rank_0_and_without_an_operator(cluster: &Cluster) {
    let space = Space::new(cluster, "training", "");
    space.apply(&job("mnist", 2, "", &format!("{{containers: [{}]}}", container(TRAIN, ""))));
    space.await_log("mnist-edljob-worker-0", "/2 restart 0 starts at step");
    space.kubectl(&["delete", "pod", "mnist-edljob-worker-0", "--grace-period=0", "--force"]);
    // The survivor meets the successor: both start again. torchrun counts that as a restart or not, as it notices the
    // failure of its process or the newcomer first.
    space.await_log("mnist-edljob-worker-0", "/2 restart");
    let log = || space.log("mnist-edljob-worker-1");
    eventually("the survivor to start again", log, || (log().matches("starts at step").count() > 1).then_some(()));
    assert_eq!(space.status("mnist")["phase"], "Running");

    let before = space.pods();
    let words = ["-n", "flexor-system", "delete", "pod", "-l", "app.kubernetes.io/name=flexor-operator"];
    let deleted = succeed(&mut cluster.kubectl(words));
    assert!(deleted.contains("deleted"), "{deleted}");
    let words = ["-n", "flexor-system", "rollout", "status", "deployment/flexor-operator", "--timeout=120s"];
    succeed(&mut cluster.kubectl(words));
    let log = || operator_log(cluster);
    eventually("the new operator to serve", log, || log().contains("serving kind=\"ElasticJob\"").then_some(()));
    // An edit that concerns no pod: the new operator decides, and the job trains on.
    let patch = r#"{"spec": {"replicaSpecs": {"worker": {"restartCount": 7}}}}"#;
    space.kubectl(&["patch", KIND, "mnist", "--type=merge", "-p", patch]);
    let edited = space.get(&[KIND, "mnist"])["metadata"]["generation"].clone();
    let explain = || format!("{:#}\n{}", space.status("mnist"), operator_log(cluster));
    eventually("the edit to be seen", explain, || {
        (space.status("mnist")["observedGeneration"] == edited).then_some(())
    });
    let last_step = || space.last_step("mnist-edljob-worker-1");
    let explain = || format!("{:?}", space.pods());
    let seen_at = eventually("a step", explain, last_step);
    let trained_on = || last_step().filter(|step| *step >= seen_at + MORE_STEPS);
    eventually(&format!("{MORE_STEPS} steps after {seen_at}"), explain, trained_on);
    assert_eq!(space.pods(), before, "nothing was started again");
    space.remove();
}
