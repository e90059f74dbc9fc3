//! Tests that break a control plane, each with its own cluster.

use flexor_testbed::{ClusterConfig, Component, NodeGroup, cluster_or_skip};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::json;

use super::pods::{await_pod, create, phase, pod};

fn one_node() -> ClusterConfig {
    ClusterConfig::with_nodes([NodeGroup::new("node", 1)])
}

#[tokio::test]
async fn data_outlives_the_api_server_and_etcd() {
    let cluster = cluster_or_skip!(one_node());
    let client = cluster.client().await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let map = serde_json::from_value(json!({ "metadata": { "name": "kept" }, "data": { "a": "1" } })).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();

    cluster.kill(Component::ApiServer).unwrap();
    assert!(cluster.pid(Component::ApiServer).is_none());
    assert!(maps.get("kept").await.is_err(), "a killed API server answers nothing");

    cluster.restart(Component::ApiServer).await.unwrap();
    assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["a"], "1");
    cluster.restart(Component::Etcd).await.unwrap();
    assert_eq!(maps.get("kept").await.unwrap().data.unwrap()["a"], "1");
}

#[tokio::test]
async fn pods_wait_while_the_scheduler_is_dead() {
    let cluster = cluster_or_skip!(one_node());
    cluster.kill(Component::Scheduler).unwrap();
    let namespace = cluster.namespace("no-scheduler").await.unwrap();
    let unplaced = create(&namespace, pod("waits", &[])).await;
    assert_eq!(unplaced.spec.unwrap().node_name, None);
    cluster.restart(Component::Scheduler).await.unwrap();
    await_pod(&namespace, "waits", "Running", |pod| phase(pod) == "Running").await;
}

#[tokio::test]
async fn logs_lie_at_the_reported_path() {
    let cluster = cluster_or_skip!();
    for component in Component::ALL {
        assert!(cluster.logs(component).is_file(), "{component}");
    }
    assert!(std::fs::read_to_string(cluster.logs(Component::ApiServer)).unwrap().contains("v1.36.3"));
}

#[tokio::test]
async fn a_test_can_reach_a_port_in_the_cluster() {
    let cluster = cluster_or_skip!();
    let config = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let server = config.split_once("https://").unwrap().1.split('"').next().unwrap();
    cluster.connect(server.parse().unwrap()).await.unwrap();
    let unused = "127.0.0.1:9".parse().unwrap();
    assert!(cluster.connect(unused).await.is_err());
}
