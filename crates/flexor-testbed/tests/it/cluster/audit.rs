//! The requests of service accounts are written down where a cluster is asked to.

use flexor_testbed::{ClusterConfig, cluster_or_skip};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_service_account_are_audited_and_those_of_others_are_not() {
    let cluster = cluster_or_skip!(ClusterConfig::default().auditing_service_accounts());
    let kubeconfig = cluster.kubeconfig_of("default", "default").await.unwrap();
    let of_account: Api<ConfigMap> = Api::namespaced(cluster.client_of(&kubeconfig).await.unwrap(), "default");
    let of_admin: Api<ConfigMap> = Api::namespaced(cluster.client().await.unwrap(), "default");
    assert!(of_account.get("of-account").await.is_err(), "the account has no rights");
    assert!(of_admin.get("of-admin").await.is_err(), "there is no such object");
    let log = std::fs::read_to_string(cluster.audit_log()).unwrap();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("\"configmaps\"")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("of-account") && lines[0].contains("system:serviceaccount:default:default"), "{log}");
}
