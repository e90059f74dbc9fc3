//! Tests lost nodes: one without a network, one without a kubelet, and one that is drained.

use flexor_testbed::{Cluster, ClusterConfig, await_condition, await_list, is_ready, nodes_or_skip};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::pods::{DEADLINE, node_of, on_node, pod, printed, run};

#[tokio::test]
async fn lost_nodes_are_noticed_and_return_with_their_pods() {
    let cluster = nodes_or_skip!(ClusterConfig::with_nodes([]).and_real_nodes(2));
    let namespace = cluster.namespace("lost").await.unwrap();
    for node in ["node-1", "node-2"] {
        run(&namespace, on_node(pod(&format!("on-{node}"), "exec sleep 1000"), node)).await;
    }
    cluster.real_node("node-1").unwrap().kill_kubelet().unwrap();
    cluster.real_node("node-2").unwrap().cut_network().unwrap();
    let nodes: Api<Node> = Api::all(namespace.client());
    let lost = await_list(DEADLINE, nodes.clone(), "", "both nodes to be unknown", |nodes: &[Node]| {
        nodes.iter().filter(|node| is_unknown(node)).count() == 2
    });
    lost.await.unwrap();

    cluster.real_node("node-1").unwrap().start_kubelet().unwrap();
    cluster.real_node("node-2").unwrap().mend_network().unwrap();
    let back = await_list(DEADLINE, nodes, "", "both nodes to be Ready", |nodes: &[Node]| {
        nodes.iter().filter(|node| is_ready(node)).count() == 2
    });
    back.await.unwrap();
    for node in ["node-1", "node-2"] {
        // The same container, not one that was started again.
        let count = printed(&mut namespace.kubectl([
            "get",
            "pod",
            &format!("on-{node}"),
            "-o",
            "jsonpath={.status.containerStatuses[0].restartCount}{.status.phase}",
        ]));
        assert_eq!(count, "0Running", "{node}");
    }
    drains(&cluster, &namespace).await;
}

/// A drained node loses its pods and gets none. In the same cluster, because no other test could use the nodes.
async fn drains(cluster: &Cluster, namespace: &flexor_testbed::TestNamespace<'_>) {
    cluster.drain("node-2").unwrap();
    let gone = await_condition(DEADLINE, namespace.api(), "on-node-2", "to be gone", |pod: Option<&Pod>| pod.is_none());
    gone.await.unwrap();
    let mut next = pod("next", "exec sleep 1000");
    next["spec"]["affinity"] = json!({ "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "preference": { "matchExpressions": [
            { "key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"] },
        ] },
    }] } });
    assert_eq!(node_of(&run(namespace, next).await), "node-1");
    cluster.uncordon("node-2").unwrap();
    let nodes: Api<Node> = Api::all(namespace.client());
    let open = await_condition(DEADLINE, nodes, "node-2", "to take pods", |node: Option<&Node>| {
        node.is_some_and(|node| node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true))
    });
    assert_eq!(open.await.unwrap().unwrap().name_any(), "node-2");
}

/// Whether the control plane has given the node up.
fn is_unknown(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}
