//! The configuration files of a node's programs and of CoreDNS.
//!
//! Settings keep their defaults where possible. The exceptions: no cgroups or kernel settings outside the node's own,
//! no systemd, no `CAP_SYS_RESOURCE`, and heartbeats fast enough that a test of a lost node takes seconds.

use std::{net::Ipv4Addr, path::Path};

use serde_json::json;

use super::{BUSYBOX_IMAGE, network};

/// How often a lost node is looked for depends on this: a kubelet renews its lease at a quarter of it.
const LEASE_SECONDS: u32 = 12;

/// The socket of containerd inside a node's mount namespace.
pub(super) const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

const CLUSTER_DOMAIN: &str = "cluster.local";

/// containerd's, with the file of [`mounts`](super::mounts) that every container's specification begins with.
pub(super) fn containerd(root: &Path, plugins: &Path, networks: &Path, containers: &Path) -> String {
    // JSON's strings are TOML's, too.
    let [root, plugins, networks, containers] =
        [root, plugins, networks, containers].map(|path| json!(path.display().to_string()));
    format!(
        r#"version = 2
root = {root}
state = "/run/containerd"
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{BUSYBOX_IMAGE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = {plugins}
conf_dir = {networks}
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = {containers}
"#
    )
}

/// The network of a node's pods, for containerd.
pub(super) fn pod_network(pods: &str) -> String {
    let bridge = json!({
        "type": "bridge",
        "bridge": network::POD_BRIDGE,
        "isGateway": true,
        "isDefaultGateway": true,
        "hairpinMode": true,
        "ipam": { "type": "host-local", "ranges": [[{ "subnet": pods }]] },
    });
    let ports = json!({ "type": "portmap", "capabilities": { "portMappings": true } });
    json!({ "cniVersion": "0.4.0", "name": "testbed", "plugins": [bridge, ports] }).to_string()
}

pub(super) fn kubelet(cgroup: &Path, authority: &Path, resolv_conf: &Path) -> String {
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": { "x509": { "clientCAFile": authority } },
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": Path::new("/").join(cgroup),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": false,
        "oomScoreAdj": 0,
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "clusterDNS": [network::CONTROL_PLANE],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": resolv_conf,
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "nodeStatusUpdateFrequency": "4s",
        // A developer's disk may be nearly full.
        "evictionHard": { "memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": false,
    });
    format!("{config:#}\n")
}

pub(super) fn kube_proxy(node: &str, kubeconfig: &Path) -> String {
    let config = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig },
        "mode": "iptables",
        "clusterCIDR": network::PODS,
        "hostnameOverride": node,
        "oomScoreAdj": 0,
        // The table of connections is the whole machine's.
        "conntrack": { "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
    });
    format!("{config:#}\n")
}

pub(super) fn corefile(kubeconfig: &Path) -> String {
    let (address, kubeconfig) = (network::CONTROL_PLANE, json!(kubeconfig.display().to_string()));
    format!(
        ".:53 {{
    bind {address}
    ready {address}:8181
    errors
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
    }}
}}
"
    )
}

/// The name servers of pods that use their node's.
pub(super) fn resolv_conf() -> String {
    name_server(network::CONTROL_PLANE)
}

fn name_server(address: Ipv4Addr) -> String {
    format!("nameserver {address}\n")
}
