//! The nodes that `cargo xtask cluster up` asks for: how many of which kind, and what they need on this machine.

use anyhow::{Error, Result, anyhow};
use clap::Args;
use flexor_testbed::{ClusterConfig, NodeGroup, NodeTools, NodeToolsError};

use super::tutorials;

/// How many fake nodes there are where nothing else is asked for.
const FAKE_NODES: usize = 3;

/// The nodes of the cluster.
#[derive(Args, Debug, PartialEq, Eq)]
pub(super) struct NodeArgs {
    /// How many fake nodes [default: 3, or none beside real ones]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,

    /// Cores of each fake node
    #[arg(long, value_name = "QUANTITY", default_value = "16")]
    node_cpu: String,

    /// Memory of each fake node
    #[arg(long, value_name = "QUANTITY", default_value = "64Gi")]
    node_memory: String,

    /// GPUs (nvidia.com/gpu) of each fake node
    #[arg(long, value_name = "N", default_value_t = 0)]
    node_gpu: u32,

    /// How many nodes with a kubelet and containers, up to 100; needs root
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100))]
    real_nodes: u8,

    /// Bring the images that the tutorials name to the real nodes, with a release build of Flexor among them
    #[arg(long, requires = "real_nodes")]
    tutorials: bool,
}

impl NodeArgs {
    pub(super) fn config(&self) -> Result<ClusterConfig> {
        // The testbed calls real nodes node-1, node-2, ….
        let name = if self.has_containers() { "fake" } else { "node" };
        let group = NodeGroup::new(name, self.fake()).cpu(&self.node_cpu).memory(&self.node_memory);
        let group = match self.node_gpu {
            0 => group,
            gpus => group.gpus(gpus),
        };
        let config = ClusterConfig::with_nodes([group]);
        let config = if self.has_containers() { config.and_real_nodes(self.real_nodes.into()) } else { config };
        if self.tutorials { tutorials::with_torch(config) } else { Ok(config) }
    }

    /// The same again as arguments of another process.
    pub(super) fn to_args(&self) -> Vec<String> {
        let nodes = self.nodes.map(|nodes| format!("--nodes={nodes}"));
        let sizes = [
            format!("--node-cpu={}", self.node_cpu),
            format!("--node-memory={}", self.node_memory),
            format!("--node-gpu={}", self.node_gpu),
            format!("--real-nodes={}", self.real_nodes),
        ];
        let tutorials = self.tutorials.then(|| "--tutorials".to_owned());
        nodes.into_iter().chain(sizes).chain(tutorials).collect()
    }

    /// Installs and builds the programs of real nodes, or says what this machine lacks.
    pub(super) fn ensure_tools(&self) -> Result<()> {
        if self.has_containers() {
            NodeTools::ensure().map_err(explained)?;
        }
        if self.tutorials { tutorials::prepare() } else { Ok(()) }
    }

    pub(super) fn are_for_tutorials(&self) -> bool {
        self.tutorials
    }

    pub(super) fn has_containers(&self) -> bool {
        self.real_nodes > 0
    }

    pub(super) fn in_words(&self) -> String {
        let count = |number: usize, kind: &str| match number {
            1 => format!("1 {kind} node"),
            number => format!("{number} {kind} nodes"),
        };
        match (usize::from(self.real_nodes), self.fake()) {
            (0, fake) => count(fake, "fake"),
            (real, 0) => count(real, "real"),
            (real, fake) => format!("{} and {}", count(real, "real"), count(fake, "fake")),
        }
    }

    fn fake(&self) -> usize {
        self.nodes.unwrap_or(if self.has_containers() { 0 } else { FAKE_NODES })
    }
}

/// What `up` says where there can be no real nodes.
fn explained(error: NodeToolsError) -> Error {
    if error.is_unmet_requirement() {
        // Each of these errors begins with what the machine needs.
        anyhow!("--real-nodes {error}; without --real-nodes the nodes are fake")
    } else {
        anyhow!(error).context("cannot have the programs of real nodes")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        nodes: NodeArgs,
    }

    fn nodes(line: &str) -> NodeArgs {
        Cli::parse_from(line.split_whitespace()).nodes
    }

    #[test]
    fn real_nodes_have_fake_ones_beside_them_only_on_request() {
        let words = ["up", "up --real-nodes 2", "up --real-nodes 1 --nodes 5"].map(|line| nodes(line).in_words());
        assert_eq!(words, ["3 fake nodes", "2 real nodes", "1 real node and 5 fake nodes"]);
    }

    #[test]
    fn more_real_nodes_than_there_are_addresses_are_refused() {
        assert!(Cli::try_parse_from(["up", "--real-nodes", "101"]).is_err());
    }

    #[test]
    fn what_the_machine_lacks_is_said_with_the_option_that_needs_it() {
        let packages = vec!["runc", "iptables"];
        let missing = NodeToolsError::Packages { packages, reason: "cannot start apt-get".to_owned() };
        let said = [NodeToolsError::NeedsRoot, missing].map(|error| explained(error).to_string());
        let fake = "without --real-nodes the nodes are fake";
        assert_eq!(
            said,
            [
                format!("--real-nodes needs root to run kubelets and containers in namespaces; {fake}"),
                format!("--real-nodes needs the Debian packages runc iptables: cannot start apt-get; {fake}"),
            ]
        );
    }
}
