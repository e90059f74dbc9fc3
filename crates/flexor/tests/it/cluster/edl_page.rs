//! The page on EDL's autoscaling experiment, from its first command to its last, with the operator under its own service
//! account. The nodes are fake: pods run, and nothing runs in them.

use flexor_testbed::{ClusterConfig, NodeGroup, cluster_or_skip, skip};

use super::operator::{Operator, turn};
use crate::page::{self, Reader, Step};

const PAGE: &str = "edl.md";
/// How the page starts its cluster.
const CLUSTER_UP: &str = "cargo xtask cluster up --nodes 40 --node-cpu 6100m --node-gpu 2";

fn config() -> ClusterConfig {
    ClusterConfig::with_nodes([NodeGroup::new("node", 40).cpu("6100m").gpus(2)])
}

/// Whether a reader starts the operator after this step.
fn deploys_controller(step: &Step) -> bool {
    step.output.iter().flatten().any(|line| line.starts_with("deployment.apps/training-job-controller "))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_on_edls_experiment() {
    let _turn = turn().await;
    if page::in_path("python3").is_none() {
        skip!("needs `python3`: the page collects its data with main.py");
    }
    assert!(page::text(PAGE).contains(CLUSTER_UP), "the page starts its cluster like this test");
    let cluster = cluster_or_skip!(config());
    let mut reader = Reader::new(&cluster);
    let mut operator = None;
    for step in page::steps(PAGE) {
        reader.follow(&step);
        if deploys_controller(&step) {
            operator = Some(Operator::start(&cluster, "paddlecloud", "training-job-controller").await);
        }
    }
    reader.finish();
    assert!(operator.is_some(), "the page installs the controller");
}
