//! The command line of each component, for a small and fast control plane without durability.
//!
//! Flags keep their defaults wherever possible, so that tests meet the behaviour of a stock cluster.

use std::{fmt::Display, path::Path};

use super::{Audit, Component, ControlPlane, NodeKind};
use crate::real_nodes::CONTROL_PLANE;

/// The arguments of `component`.
pub(super) fn of(component: Component, plane: &ControlPlane) -> Vec<String> {
    match component {
        Component::Etcd => etcd(plane),
        Component::ApiServer => api_server(plane),
        Component::ControllerManager => controller_manager(plane),
        Component::Scheduler => scheduler(plane),
        Component::Kwok => kwok(plane),
    }
}

fn etcd(plane: &ControlPlane) -> Vec<String> {
    let client = loopback_url(plane.ports.etcd_client);
    let peer = loopback_url(plane.ports.etcd_peer);
    vec![
        flag("name", "testbed"),
        flag("data-dir", file(&plane.folder.join("etcd"))),
        flag("listen-client-urls", &client),
        flag("advertise-client-urls", &client),
        flag("listen-peer-urls", &peer),
        flag("initial-advertise-peer-urls", &peer),
        flag("initial-cluster", format!("testbed={peer}")),
        // The data outlives a kill -9 of the processes; it need not outlive the machine.
        "--unsafe-no-fsync".into(),
        flag("log-level", "warn"),
    ]
}

fn api_server(plane: &ControlPlane) -> Vec<String> {
    let pki = &plane.pki;
    let audit = match plane.audit {
        Audit::Off => Vec::new(),
        Audit::ServiceAccounts => vec![
            flag("audit-policy-file", file(&plane.audit_policy())),
            flag("audit-log-path", file(&plane.audit_log())),
        ],
    };
    let reachability = match plane.node_kind {
        NodeKind::Fake => vec![
            flag("bind-address", "127.0.0.1"),
            // The API server would guess this from the default route, which a fresh network namespace lacks.
            flag("advertise-address", "127.0.0.1"),
            // An Endpoints object may not name loopback; nothing in here calls the `kubernetes` Service.
            flag("endpoint-reconciler-type", "none"),
        ],
        NodeKind::Real => vec![
            flag("bind-address", "0.0.0.0"),
            flag("advertise-address", CONTROL_PLANE),
            // For `kubectl logs` and `exec`; no name server of the API server's knows the nodes' names.
            flag("kubelet-preferred-address-types", "InternalIP"),
            flag("kubelet-client-certificate", file(&pki.admin_certificate())),
            flag("kubelet-client-key", file(&pki.admin_key())),
        ],
    };
    let flags = vec![
        flag("etcd-servers", loopback_url(plane.ports.etcd_client)),
        flag("secure-port", plane.ports.api_server),
        flag("tls-cert-file", file(&pki.server_certificate())),
        flag("tls-private-key-file", file(&pki.server_key())),
        flag("client-ca-file", file(&pki.authority())),
        flag("service-cluster-ip-range", "10.96.0.0/16"),
        flag("service-account-issuer", "https://kubernetes.default.svc"),
        flag("service-account-key-file", file(&pki.account_public_key())),
        flag("service-account-signing-key-file", file(&pki.account_key())),
        flag("authorization-mode", "Node,RBAC"),
        flag("allow-privileged", true),
    ];
    flags.into_iter().chain(reachability).chain(audit).collect()
}

fn controller_manager(plane: &ControlPlane) -> Vec<String> {
    let monitor = match plane.node_kind {
        NodeKind::Fake => None,
        // Instead of 50 s, to match the heartbeats of the kubelets: a lost node is noticed sooner.
        NodeKind::Real => Some(flag("node-monitor-grace-period", "20s")),
    };
    let flags = vec![
        flag("kubeconfig", file(&plane.kubeconfig())),
        flag("leader-elect", false),
        flag("secure-port", 0),
        flag("authentication-skip-lookup", true),
        flag("root-ca-file", file(&plane.pki.authority())),
        flag("service-account-private-key-file", file(&plane.pki.account_key())),
        // The default of 20 requests a second would take 25 s to make 500 pods.
        flag("kube-api-qps", 500),
        flag("kube-api-burst", 1000),
        // Instead of 15 s: the figures of [`crate::metrics`] change at once.
        flag("horizontal-pod-autoscaler-sync-period", "2s"),
    ];
    flags.into_iter().chain(monitor).collect()
}

fn scheduler(plane: &ControlPlane) -> Vec<String> {
    vec![
        flag("kubeconfig", file(&plane.kubeconfig())),
        flag("leader-elect", false),
        flag("secure-port", 0),
        flag("authentication-skip-lookup", true),
        flag("kube-api-qps", 500),
        flag("kube-api-burst", 1000),
    ]
}

fn kwok(plane: &ControlPlane) -> Vec<String> {
    vec![
        flag("kubeconfig", file(&plane.kubeconfig())),
        flag("config", file(&plane.folder.join("stages.yaml"))),
        flag("manage-nodes-with-annotation-selector", crate::nodes::MANAGED_BY_KWOK),
        flag("node-lease-duration-seconds", 40),
        flag("node-ip", "127.0.0.1"),
        flag("cidr", "10.244.0.0/16"),
        flag("node-port", 0),
    ]
}

fn flag(name: &str, value: impl Display) -> String {
    format!("--{name}={value}")
}

fn file(path: &Path) -> impl Display {
    path.display()
}

fn loopback_url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}
