//! The network of a cluster with real nodes: one bridge, a cable from it to every node, and routed pods.
//!
//! The addresses are the same in every cluster, because no two clusters share a network. The host's network is not
//! involved: packets have nowhere to go but to the control plane, the nodes and their pods.

use std::{net::Ipv4Addr, process::Command};

use anyhow::{Context as _, ensure};

use super::node::RealNode;
use crate::keeper::Sandbox;

/// The cluster's side of the bridge: the API server and the name server.
pub(crate) const CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);

/// All pods of real nodes. kwok gives the pods of fake nodes addresses of another range; nothing answers there.
pub(super) const PODS: &str = "10.245.0.0/16";

const SERVICES: &str = "10.96.0.0/16";

/// The bridge that all nodes are connected to, in the cluster's network.
const BRIDGE: &str = "nodes";

/// Its hardware address, which would change with the nodes.
const BRIDGE_HARDWARE: &str = "02:00:0a:fa:00:01";

/// A node's end of its cable.
const CABLE: &str = "eth0";

/// A node's bridge for its pods.
pub(super) const POD_BRIDGE: &str = "cni0";

/// The addresses of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeAddresses {
    /// Counts from 1.
    number: u8,
}

impl NodeAddresses {
    pub(super) fn of(number: usize) -> anyhow::Result<Self> {
        let number = u8::try_from(number).ok().filter(|number| (1..=100).contains(number));
        Ok(Self { number: number.context("a cluster has at most 100 real nodes")? })
    }

    pub(super) fn node(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 250, 0, 10 + self.number)
    }

    /// The node's address on the bridge of its pods: their gateway.
    fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 245, self.number, 1)
    }

    /// The hardware address of that bridge. By itself a bridge has the lowest of its ports, so that it changes with the
    /// pods that come and go, and a pod that knows the old one loses its gateway.
    fn gateway_hardware(self) -> String {
        format!("02:00:0a:f5:{:02x}:01", self.number)
    }

    pub(super) fn pods(self) -> String {
        format!("10.245.{}.0/24", self.number)
    }
}

/// Makes the bridge in the cluster's network.
pub(super) fn create_bridge(cluster: &Sandbox) -> anyhow::Result<()> {
    let services_via = NodeAddresses::of(1)?.node();
    script(
        cluster,
        &format!(
            "ip link add {BRIDGE} address {BRIDGE_HARDWARE} type bridge
             ip address add {CONTROL_PLANE}/24 dev {BRIDGE}
             ip link set {BRIDGE} up
             ip route add {SERVICES} via {services_via}"
        ),
    )
}

/// Connects a new node's network to the bridge.
pub(super) fn connect(cluster: &Sandbox, node: &Sandbox, name: &str, addresses: NodeAddresses) -> anyhow::Result<()> {
    let Sandbox::Namespaces { init, .. } = node else {
        anyhow::bail!("a real node needs namespaces");
    };
    let (address, gateway, hardware) = (addresses.node(), addresses.gateway(), addresses.gateway_hardware());
    script(
        cluster,
        &format!(
            "ip link add {name} type veth peer name {CABLE} netns {init}
             ip link set {name} master {BRIDGE} up"
        ),
    )?;
    script(
        node,
        &format!(
            "ip link set lo up
             ip address add {address}/24 dev {CABLE}
             ip link set {CABLE} up
             ip route add default via {CONTROL_PLANE}
             ip link add {POD_BRIDGE} address {hardware} type bridge
             ip address add {gateway}/24 dev {POD_BRIDGE}
             ip link set {POD_BRIDGE} up"
        ),
    )
}

/// Routes between the pods of all nodes, and to them from the control plane.
pub(super) fn connect_pods(cluster: &Sandbox, nodes: &[RealNode]) -> anyhow::Result<()> {
    let routes = |but: Option<&RealNode>| -> String {
        let others = nodes.iter().filter(|node| but.is_none_or(|but| but.name() != node.name()));
        let lines = others.map(|node| {
            let addresses = node.addresses();
            format!("ip route add {} via {}\n", addresses.pods(), addresses.node())
        });
        lines.collect()
    };
    script(cluster, &routes(None))?;
    nodes.iter().try_for_each(|node| script(node.sandbox(), &routes(Some(node))))
}

/// Cuts a node's cable. Packets are lost; no connection is closed.
pub(super) fn cut(cluster: &Sandbox, name: &str) -> anyhow::Result<()> {
    // On this side: an interface that is down loses its routes, and this end has none.
    script(cluster, &format!("ip link set {name} down"))
}

/// Mends a node's cable.
pub(super) fn mend(cluster: &Sandbox, name: &str) -> anyhow::Result<()> {
    script(cluster, &format!("ip link set {name} up"))
}

/// Runs shell commands in the network of `sandbox`. Process ids in them are the host's.
fn script(sandbox: &Sandbox, commands: &str) -> anyhow::Result<()> {
    let mut command: Command = sandbox.network_command("sh".as_ref());
    let output = command.args(["-e", "-c", commands]).output().context("start nsenter; install util-linux")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot set up a network: {}\n{commands}", complaint.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_share_no_address() {
        let (one, two) = (NodeAddresses::of(1).unwrap(), NodeAddresses::of(2).unwrap());
        assert_eq!((one.node().to_string(), one.pods()), ("10.250.0.11".into(), "10.245.1.0/24".into()));
        assert_ne!(one.node(), two.node());
        assert_ne!(one.pods(), two.pods());
        assert!(NodeAddresses::of(0).is_err() && NodeAddresses::of(101).is_err());
    }
}
