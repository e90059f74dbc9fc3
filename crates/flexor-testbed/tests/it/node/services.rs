//! Tests the network of real pods: names, services, and pods on another node.

use flexor_testbed::nodes_or_skip;
use k8s_openapi::api::core::v1::Service;
use kube::api::PostParams;
use serde_json::json;

use super::pods::{address_of, on_node, pod, printed, run};

/// Serves one file over HTTP, on the port of the service.
const SERVER: &str = "mkdir /www; echo served > /www/index.html; exec httpd -f -p 8080 -h /www";

#[tokio::test]
async fn a_pod_reaches_services_by_name_and_pods_of_another_node() {
    let cluster = nodes_or_skip!();
    let namespace = cluster.namespace("network").await.unwrap();
    let service = json!({
        "metadata": { "name": "web" },
        "spec": { "selector": { "app": "server" }, "ports": [{ "port": 80, "targetPort": 8080 }] },
    });
    let service: Service = serde_json::from_value(service).unwrap();
    namespace.api().create(&PostParams::default(), &service).await.unwrap();
    let (server, _client) = tokio::join!(
        run(&namespace, on_node(pod("server", SERVER), "node-1")),
        run(&namespace, on_node(pod("client", "exec sleep 1000"), "node-2")),
    );
    let in_client = |args: &[&str]| printed(namespace.kubectl(["exec", "client", "--"]).args(args));

    let answer = in_client(&["nslookup", "kubernetes.default.svc.cluster.local"]);
    assert!(answer.contains("Address: 10.96.0.1"), "{answer}");
    let direct = format!("http://{}:8080/", address_of(&server));
    assert_eq!(in_client(&["timeout", "10", "wget", "-q", "-O-", &direct]), "served\n");
    // A moment may pass until every node's proxy knows the pod behind the service; `wget` has no retries. Its own
    // option for a timeout crashes in Debian's static build.
    let patiently = |url: &str| in_client(&["sh", "-c", &format!("until timeout 2 wget -q -O- {url}; do :; done")]);
    for name in ["web", &format!("web.{}.svc.cluster.local", namespace.name())] {
        assert_eq!(patiently(&format!("http://{name}/")), "served\n");
    }
    // The control plane's side of the network, where programs under test run, reaches services too.
    let address = printed(&mut namespace.kubectl(["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"]));
    let outside =
        cluster.command_in("timeout").args(["10", "busybox", "wget", "-q", "-O-", &address]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&outside.stdout), "served\n", "{}", String::from_utf8_lossy(&outside.stderr));
}
