//! Tests pods in real containers: where they run, what they print, and the images they are made of.

use flexor_testbed::{FAKE_NODE_TAINT, is_ready, nodes_or_skip};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _, api::ListParams};
use serde_json::json;

use super::pods::{await_pod, container, create, node_of, on_node, pod, printed, run};

#[tokio::test]
async fn real_nodes_are_ready_beside_fake_ones_and_get_the_pods_that_do_not_ask_for_a_fake_one() {
    let cluster = nodes_or_skip!();
    let all: Api<Node> = Api::all(cluster.client().await.unwrap());
    let nodes = all.list(&ListParams::default()).await.unwrap().items;
    let ready: Vec<String> = nodes.iter().filter(|node| is_ready(node)).map(Node::name_any).collect();
    assert_eq!(ready, ["fake-0", "fake-1", "node-1", "node-2"]);

    let namespace = cluster.namespace("both-kinds").await.unwrap();
    let real = run(&namespace, pod("real", "exec sleep 1000")).await;
    assert!(node_of(&real).starts_with("node-"), "{}", node_of(&real));
    let mut fake = pod("fake", "exec sleep 1000");
    fake["spec"]["tolerations"] = json!([{ "key": FAKE_NODE_TAINT, "operator": "Exists" }]);
    let fake = run(&namespace, on_node(fake, "fake-1")).await;
    assert_eq!(node_of(&fake), "fake-1");
}

#[tokio::test]
async fn a_native_sidecar_runs_beside_its_container_and_both_have_logs() {
    let cluster = nodes_or_skip!();
    let namespace = cluster.namespace("sidecar").await.unwrap();
    let mut trainer = pod("trainer", "echo from the container; exec sleep 1000");
    let mut sidecar = container("sidecar", "echo from the sidecar; exec sleep 1000");
    sidecar["restartPolicy"] = json!("Always");
    trainer["spec"]["initContainers"] = json!([sidecar]);
    trainer["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "100m", "memory": "64Mi" } });
    run(&namespace, trainer).await;

    let listed = printed(&mut namespace.kubectl(["get", "pods", "--no-headers"]));
    assert_eq!(listed.split_whitespace().take(3).collect::<Vec<_>>(), ["trainer", "2/2", "Running"]);
    let logs = |container: &str| printed(&mut namespace.kubectl(["logs", "trainer", "-c", container]));
    assert_eq!(logs("main"), "from the container\n");
    assert_eq!(logs("sidecar"), "from the sidecar\n");
    let inside = printed(&mut namespace.kubectl(["exec", "trainer", "-c", "main", "--", "hostname"]));
    assert_eq!(inside, "trainer\n");
}

#[tokio::test]
async fn a_container_over_its_memory_limit_is_killed() {
    let cluster = nodes_or_skip!();
    let namespace = cluster.namespace("memory").await.unwrap();
    // `tail` keeps the last line, and this one never ends.
    let mut hungry = pod("hungry", "tail /dev/zero");
    hungry["spec"]["containers"][0]["resources"] = json!({ "limits": { "memory": "16Mi" } });
    create(&namespace, hungry).await;
    let ended = await_pod(&namespace, "hungry", "to fail", |pod| {
        pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed")
    });
    let status = ended.await.status.unwrap().container_statuses.unwrap().remove(0);
    let terminated = status.state.unwrap().terminated.unwrap();
    assert_eq!((terminated.exit_code, terminated.reason.as_deref()), (137, Some("OOMKilled")));
}

/// Where a test's own program is the image's: what runs is this test harness, which lists its tests.
#[tokio::test]
async fn flexors_image_runs_without_rights_on_every_node() {
    let cluster = nodes_or_skip!();
    let namespace = cluster.namespace("image").await.unwrap();
    let program = std::env::current_exe().unwrap();
    let image = flexor_image::flexor::image(&program, "1.2.3", None).unwrap();
    cluster.add_image(&image, "flexor-test:1").unwrap();
    for node in ["node-1", "node-2"] {
        let mut lister = on_node(pod(node, ""), node);
        lister["spec"]["securityContext"] =
            json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } });
        lister["spec"]["containers"] = json!([{
            "name": "main",
            "image": "flexor-test:1",
            "imagePullPolicy": "IfNotPresent",
            "args": ["--list"],
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
        }]);
        create(&namespace, lister).await;
        let ended = await_pod(&namespace, node, "to end", |pod| {
            matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
        });
        let ended = ended.await;
        assert_eq!(ended.status.as_ref().unwrap().phase.as_deref(), Some("Succeeded"), "{:?}", ended.status);
        let listed = printed(&mut namespace.kubectl(["logs", node]));
        assert!(listed.contains("flexors_image_runs_without_rights_on_every_node: test"), "{listed}");
    }
}
