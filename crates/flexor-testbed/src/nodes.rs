//! Fake nodes of any count and size, added and removed while the cluster runs.
//!
//! A node here is a Node object with a size; kwok plays its kubelet by the rules of [`crate::stages`]. The scheduler
//! and all controllers take it for real.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    api::core::v1::{Node, NodeSpec, NodeStatus, Taint},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};

use crate::condition::await_list;

/// The annotation that marks kwok's nodes, as a selector.
pub(crate) const MANAGED_BY_KWOK: &str = "kwok.x-k8s.io/node=fake";

/// The taint of fake nodes in a cluster with real ones, with effect `NoSchedule`: a pod that may run on a fake node
/// tolerates it.
pub const FAKE_NODE_TAINT: &str = "testbed.flexor.dev/fake";

/// How long nodes may take to become Ready: a hundred need about a second on two idle cores.
const READY_DEADLINE: Duration = Duration::from_secs(60);

/// How many nodes are registered side by side.
const CREATED_AT_ONCE: usize = 16;

/// Some nodes of one size, named `<name>-0`, `<name>-1`, ….
#[derive(Debug, Clone)]
pub struct NodeGroup {
    name: String,
    count: usize,
    resources: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
}

impl NodeGroup {
    /// `count` nodes of 16 cores, 64Gi of memory and 110 pods.
    pub fn new(name: impl Into<String>, count: usize) -> Self {
        let group =
            Self { name: name.into(), count, resources: BTreeMap::new(), labels: BTreeMap::new(), taints: Vec::new() };
        group.cpu("16").memory("64Gi").pods(110)
    }

    /// Cores of each node, as a quantity.
    pub fn cpu(self, cpu: impl Into<String>) -> Self {
        self.resource("cpu", cpu)
    }

    /// Memory of each node, as a quantity.
    pub fn memory(self, memory: impl Into<String>) -> Self {
        self.resource("memory", memory)
    }

    /// How many pods each node takes.
    pub fn pods(self, pods: u32) -> Self {
        self.resource("pods", pods.to_string())
    }

    /// GPUs of each node (`nvidia.com/gpu`).
    pub fn gpus(self, gpus: u32) -> Self {
        self.resource("nvidia.com/gpu", gpus.to_string())
    }

    /// Any other resource of each node.
    pub fn resource(mut self, name: impl Into<String>, quantity: impl Into<String>) -> Self {
        self.resources.insert(name.into(), quantity.into());
        self
    }

    /// A label on each node.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// A taint on each node; `effect` is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub fn taint(mut self, key: impl Into<String>, value: impl Into<String>, effect: impl Into<String>) -> Self {
        let taint = Taint { key: key.into(), value: Some(value.into()), effect: effect.into(), time_added: None };
        self.taints.push(taint);
        self
    }

    /// How many nodes.
    pub fn count(&self) -> usize {
        self.count
    }

    fn nodes(&self) -> impl Iterator<Item = Node> {
        (0..self.count).map(|index| self.node(&format!("{}-{index}", self.name)))
    }

    fn node(&self, name: &str) -> Node {
        let size: BTreeMap<String, Quantity> =
            self.resources.iter().map(|(name, quantity)| (name.clone(), Quantity(quantity.clone()))).collect();
        let mut labels = self.labels.clone();
        for (key, value) in
            [("kubernetes.io/hostname", name), ("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "amd64")]
        {
            labels.insert(key.into(), value.into());
        }
        let (key, value) = managed_by_kwok();
        Node {
            metadata: ObjectMeta {
                name: Some(name.into()),
                labels: Some(labels),
                annotations: Some([(key.into(), value.into())].into()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                taints: (!self.taints.is_empty()).then(|| self.taints.clone()),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus { capacity: Some(size.clone()), allocatable: Some(size), ..NodeStatus::default() }),
        }
    }
}

/// Registers the nodes of all groups and waits until they are Ready.
pub(crate) async fn add(client: &Client, groups: &[NodeGroup]) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let nodes: Vec<Node> = groups.iter().flat_map(NodeGroup::nodes).collect();
    let names: BTreeSet<String> = nodes.iter().map(ResourceExt::name_any).collect();
    let creations = nodes.iter().map(|node| {
        let api = &api;
        async move {
            let created = api.create(&PostParams::default(), node).await;
            created.map(drop).with_context(|| format!("create node {}", node.name_any()))
        }
    });
    stream::iter(creations).buffer_unordered(CREATED_AT_ONCE).try_collect::<()>().await?;
    await_ready(client, &names).await
}

/// Waits until the nodes with these names are Ready, whatever the other nodes are: a test may keep a lost node.
pub(crate) async fn await_ready(client: &Client, names: &BTreeSet<String>) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    await_list(READY_DEADLINE, api, "", "the nodes to be Ready", |nodes: &[Node]| {
        let ready = nodes.iter().filter(|node| is_ready(node) && names.contains(&node.name_any()));
        ready.count() == names.len()
    })
    .await?;
    Ok(())
}

/// Deletes a Node object, as a cloud provider does for a lost machine. kwok stops playing its pods; the pod garbage
/// collector removes them about a minute later.
pub(crate) async fn remove(client: &Client, name: &str) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    api.delete(name, &DeleteParams::default()).await.with_context(|| format!("delete node {name}"))?;
    Ok(())
}

/// Silences a node: its kubelet stops posting, and the node becomes unreachable at once instead of after the node
/// monitor's grace time. Its pods stay until they are evicted.
pub(crate) async fn lose(client: &Client, name: &str) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    let (key, _) = managed_by_kwok();
    let unmanage = serde_json::json!({ "metadata": { "annotations": { key: null } } });
    let doing = || format!("lose node {name}");
    api.patch(name, &PatchParams::default(), &Patch::Merge(unmanage)).await.with_context(doing)?;
    let silent = serde_json::json!({ "status": { "conditions": [{
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
    }] } });
    api.patch_status(name, &PatchParams::default(), &Patch::Strategic(silent)).await.with_context(doing)?;
    Ok(())
}

/// Whether a node's Ready condition is true.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn managed_by_kwok() -> (&'static str, &'static str) {
    MANAGED_BY_KWOK.split_once('=').unwrap_or((MANAGED_BY_KWOK, ""))
}
