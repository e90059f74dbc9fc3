//! Two operators in one cluster, and definitions and statuses that are not Flexor's.

use flexor_testbed::{ClusterConfig, cluster_or_skip};

use super::jobs::{ALL_REDUCE, apply, await_running, eventually, get, served};
use super::{Operator, turn};
use crate::cluster::installed::{in_repository, install, succeed};

const KIND: &str = "elasticjobs.elastic.iml.github.io";
const ALL: [&str; 3] = ["elasticjob-j-dlrover-master", "j-edljob-worker-0", "j-edljob-worker-1"];

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_do_not_fight_over_a_job() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let first = served(&cluster).await;
    let namespace = cluster.namespace("claimed").await.unwrap();
    apply(&namespace, ALL_REDUCE);
    await_running(&namespace, &first, &ALL);
    let claim = || get(&namespace, &[KIND, "j"])["status"]["flexor"]["controller"].clone();
    assert_eq!(claim(), "flexor-system");

    succeed(&mut cluster.kubectl(["apply", "-k", &in_repository("deploy/dlrover")]));
    let second = Operator::start(&cluster, "dlrover", "dlrover-controller-manager").await;
    let warning = "the operator in namespace flexor-system serves this job";
    let events = || succeed(&mut namespace.kubectl(["get", "events"]));
    eventually("the warning", || second.log(), || events().contains(warning).then_some(()));
    succeed(&mut namespace.kubectl(["delete", "pod", "j-edljob-worker-1"]));
    await_running(&namespace, &first, &ALL);
    assert!(!second.log().contains("create pod"), "{}", second.log());
    assert_eq!(claim(), "flexor-system");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_status_another_controller_writes_is_left_alone() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let mut operator = served(&cluster).await;
    operator.kill();
    let namespace = cluster.namespace("others").await.unwrap();
    apply(&namespace, ALL_REDUCE);
    let patch = r#"{"status": {"phase": "Running"}}"#;
    succeed(&mut namespace.kubectl(["patch", KIND, "j", "--subresource=status", "--type=merge", "-p", patch]));
    operator.restart();
    let events = || succeed(&mut namespace.kubectl(["get", "events"]));
    let warning = "another controller than Flexor writes its status";
    eventually("the warning", || operator.log(), || events().contains(warning).then_some(()));
    assert!(get(&namespace, &["pods"])["items"].as_array().unwrap().is_empty());
    assert_eq!(get(&namespace, &[KIND, "j"])["status"], serde_json::json!({"phase": "Running"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_not_flexors_is_refused_with_the_command_to_run() {
    let _turn = turn().await;
    let cluster = cluster_or_skip!(ClusterConfig::default());
    install(&cluster, "deploy/dlrover").await;
    let definition = "elasticjobs.elastic.iml.github.io";
    let (key, _) = flexor_dialects::DEFINITION_LABEL;
    succeed(&mut cluster.kubectl(["label", "crd", definition, &format!("{key}-")]));
    let log = Operator::refused(&cluster, "dlrover", "dlrover-controller-manager").await;
    for part in [definition, "is not the definition that Flexor installs", "flexor crd | kubectl apply --server-side"] {
        assert!(log.contains(part), "{part} in {log}");
    }
}
