//! Tests nodes of any size: the real scheduler gives them pods, and they are removed.

use flexor_testbed::{Cluster, ClusterConfig, NodeGroup, await_condition, await_list, cluster_or_skip, is_ready};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use serde_json::json;

use super::pods::{DEADLINE, await_pod, create, phase, pod};

#[tokio::test]
async fn the_nodes_of_the_shared_cluster_are_ready() {
    let cluster = cluster_or_skip!();
    let nodes: Api<Node> = Api::all(cluster.client().await.unwrap());
    let found = await_list(DEADLINE, nodes, "", "eight nodes", |nodes: &[Node]| {
        nodes.iter().filter(|node| is_ready(node)).count() >= 8
    });
    found.await.unwrap();
}

#[tokio::test]
async fn kubectl_is_ours_and_speaks_to_a_server_of_its_version() {
    let cluster = cluster_or_skip!();
    let answer = cluster.kubectl(["version", "--output=json"]).output().unwrap();
    let versions: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(versions["clientVersion"]["gitVersion"], "v1.36.3");
    assert_eq!(versions["serverVersion"]["gitVersion"], "v1.36.3");
}

#[tokio::test]
async fn gpu_nodes_are_added_get_pods_and_are_removed() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("gpu").await.unwrap();
    let mut wants_gpu = pod("trainer", &[]);
    wants_gpu["spec"]["containers"][0]["resources"] = json!({ "limits": { "nvidia.com/gpu": "4" } });
    wants_gpu["spec"]["tolerations"] = json!([{ "key": "gpu", "operator": "Exists" }]);
    create(&namespace, wants_gpu).await;
    await_pod(&namespace, "trainer", "Unschedulable", |pod| {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        conditions.iter().any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
    })
    .await;

    let group = NodeGroup::new("gpu", 1).gpus(4).label("pool", "gpu").taint("gpu", "yes", "NoSchedule");
    cluster.add_nodes(group).await.unwrap();
    let running = await_pod(&namespace, "trainer", "Running", |pod| phase(pod) == "Running").await;
    assert_eq!(running.spec.unwrap().node_name.as_deref(), Some("gpu-0"));

    cluster.remove_node("gpu-0").await.unwrap();
    let nodes: Api<Node> = Api::all(namespace.client());
    await_condition(DEADLINE, nodes, "gpu-0", "to be gone", |node: Option<&Node>| node.is_none()).await.unwrap();
}

#[tokio::test]
async fn a_lost_node_is_tainted_and_its_pods_are_evicted() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("lost-node").await.unwrap();
    cluster
        .add_nodes(NodeGroup::new("lost", 1).label("pool", "lost").taint("lost", "yes", "NoSchedule"))
        .await
        .unwrap();
    let mut doomed = pod("doomed", &[]);
    doomed["spec"]["nodeSelector"] = json!({ "pool": "lost" });
    doomed["spec"]["tolerations"] = json!([
        { "key": "lost", "operator": "Exists" },
        { "key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0 },
    ]);
    create(&namespace, doomed).await;
    await_pod(&namespace, "doomed", "Running", |pod| phase(pod) == "Running").await;

    cluster.lose_node("lost-0").await.unwrap();
    let nodes: Api<Node> = Api::all(namespace.client());
    await_condition(DEADLINE, nodes, "lost-0", "the taint of an unreachable node", |node: Option<&Node>| {
        let taints = node.and_then(|node| node.spec.as_ref()?.taints.as_deref()).unwrap_or_default();
        taints.iter().any(|taint| taint.key == "node.kubernetes.io/unreachable" && taint.effect == "NoExecute")
    })
    .await
    .unwrap();
    let evicted = await_pod(&namespace, "doomed", "deletion", |pod| pod.metadata.deletion_timestamp.is_some()).await;
    assert_eq!(phase(&evicted), "Running", "no kubelet of a lost node reports the end of a pod");
    cluster.remove_node("lost-0").await.unwrap();
}

#[tokio::test]
async fn two_clusters_at_once_are_independent() {
    let _shared = cluster_or_skip!();
    let config = |name: &str| ClusterConfig::with_nodes([NodeGroup::new(name, 1)]);
    let (left, right) = tokio::join!(Cluster::start(config("left")), Cluster::start(config("right")));
    let (left, right) = (left.unwrap(), right.unwrap());
    let names = |cluster: &Cluster| {
        let answer = cluster.kubectl(["get", "nodes", "-o", "name"]).output().unwrap();
        String::from_utf8(answer.stdout).unwrap()
    };
    assert_eq!(names(&left), "node/left-0\n");
    assert_eq!(names(&right), "node/right-0\n");

    let folder = left.folder().to_owned();
    drop(left);
    assert!(!folder.exists(), "a dropped cluster leaves no folder");
    assert_eq!(names(&right), "node/right-0\n");
}

#[tokio::test]
async fn dropping_a_namespace_frees_the_nodes() {
    let cluster = cluster_or_skip!();
    let namespace = cluster.namespace("dropped").await.unwrap();
    create(&namespace, pod("leaves", &[])).await;
    await_pod(&namespace, "leaves", "Running", |pod| phase(pod) == "Running").await;
    let name = namespace.name().to_owned();
    drop(namespace);
    let pods: Api<Pod> = Api::namespaced(cluster.client().await.unwrap(), &name);
    await_condition(DEADLINE, pods, "leaves", "to be gone", |pod: Option<&Pod>| pod.is_none()).await.unwrap();
}
