//! A TrainingJob of EDL in real containers: it takes the room that there is, is made smaller, and learns the digits.

use flexor_testbed::{Cluster, ClusterConfig, images, nodes_or_skip};
use serde_json::Value;

use super::fixture;
use crate::cluster::installed::{apply_text, in_repository, install, succeed};
use crate::condition::eventually;
use crate::program::bin;

/// 2 to `most` trainers.
fn job(most: u32) -> String {
    let requests = |cpu: &str| format!("resources: {{requests: {{cpu: {cpu}, memory: 64Mi}}}}");
    format!(
        "apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {{name: digits}}
spec:
  image: flexor:latest
  fault_tolerant: true
  passes: 20
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: mnist}}}}]
  VolumeMounts: [{{name: data, mountPath: /data}}]
  trainer:
    entrypoint: flexor worker --model=mlp --data=mnist --test-data=mnist-test --batch=256 --batch-delay=50ms
    workspace: /data
    min-instance: 2
    max-instance: {most}
    {}
  pserver: {{min-instance: 1, max-instance: 1, {}}}
  master: {{{}}}
",
        requests("200m"),
        requests("200m"),
        requests("100m"),
    )
}

fn kubectl(cluster: &Cluster, words: &[&str]) -> String {
    succeed(&mut cluster.kubectl(words))
}

fn status(cluster: &Cluster) -> Value {
    let job = kubectl(cluster, &["get", "trainingjob", "digits", "-o", "json"]);
    serde_json::from_str::<Value>(&job).unwrap()["status"].clone()
}

fn await_status(cluster: &Cluster, what: &str, holds: impl Fn(&Value) -> bool) {
    let words = ["-n", "paddlecloud", "logs", "deployment/training-job-controller", "--tail=40"];
    let explain = || format!("{:#}\n{}", status(cluster), kubectl(cluster, &words));
    eventually(what, explain, || holds(&status(cluster)).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_training_job_learns_the_digits_while_its_size_changes() {
    let _turn = fixture::turn().await;
    let cluster = nodes_or_skip!(ClusterConfig::with_nodes([]).and_real_nodes(2));
    cluster.add_image(&images::flexor(&bin()).unwrap(), "flexor:latest").unwrap();
    install(&cluster, "deploy/edl").await;
    for file in ["examples/edl/mnist-claim.yaml", "examples/edl/mnist-data.yaml"] {
        kubectl(&cluster, &["create", "-f", &in_repository(file)]);
    }
    kubectl(&cluster, &["wait", "--for=condition=complete", "job/mnist-data", "--timeout=120s"]);

    apply_text(&cluster, &job(4));
    await_status(&cluster, "four trainers", |status| status["phase"] == "running" && status["trainers"] == 4);
    apply_text(&cluster, &job(3));
    await_status(&cluster, "three trainers", |status| status["trainers"] == 3);
    let records = status(&cluster)["scale_records"].clone();
    let additional: Vec<i64> =
        records.as_array().unwrap().iter().map(|one| one["additional"].as_i64().unwrap()).collect();
    assert_eq!(additional.iter().sum::<i64>(), 3, "{records:#}");
    await_status(&cluster, "its end", |status| status["phase"] == "succeeded");
    let log = kubectl(&cluster, &["logs", "digits-trainer-0"]);
    assert!(log.contains("accuracy"), "{log}");
}
