//! The nodes: those that do not answer, the largest, and what the planner counts of each. Pods that terminate on a node
//! that does not answer keep their names for ever: no kubelet confirms their end.
//!
//! A node whose kubelet reports that it is not ready still ends its pods, so only an unknown state counts as lost. The
//! pods of a node that was removed are collected by Kubernetes itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use flexor_model::{Quantity, Resources, UnixTime};
use flexor_sched::{Node as PlannedNode, Taint, TaintEffect};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::executor::{Shared, now};
use crate::slim_pod::SlimPod;
use crate::watch_backoff::WatchBackoff;
use crate::watches::{self, Queues, Tasks};

/// A pod gets this much longer than its grace period before it is removed by force.
const MARGIN: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Nodes(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    lost: BTreeSet<String>,
    nodes: BTreeMap<String, PlannedNode>,
    /// CPU and memory of the largest.
    largest: Resources,
}

impl Known {
    fn find_largest(&mut self) {
        let all = self.nodes.values().map(|node| &node.allocatable);
        let largest = all.max_by_key(|node| (node.cpu(), node.memory()));
        let is_counted = |(name, _): &(&str, Quantity)| ["cpu", "memory"].contains(name);
        self.largest = largest.into_iter().flat_map(Resources::iter).filter(is_counted).collect();
    }
}

/// A node with only the fields that decide something.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(inherit = Node)]
pub(crate) struct SlimNode {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    spec: SlimNodeSpec,
    #[serde(default)]
    status: SlimNodeStatus,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct SlimNodeSpec {
    unschedulable: bool,
    taints: Vec<SlimTaint>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct SlimTaint {
    key: String,
    value: String,
    effect: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct SlimNodeStatus {
    conditions: Vec<SlimCondition>,
    allocatable: BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct SlimCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl SlimNode {
    fn trim(&mut self) {
        self.metadata.managed_fields = None;
        self.metadata.annotations = None;
    }

    /// What the planner counts of it.
    fn for_planner(&self) -> PlannedNode {
        let read = |(name, quantity): (&String, &k8s_openapi::apimachinery::pkg::api::resource::Quantity)| {
            Some((name.clone(), quantity.0.parse::<Quantity>().ok()?))
        };
        let taints = self.spec.taints.iter().filter_map(|taint| {
            let effect = match taint.effect.as_str() {
                "NoSchedule" => TaintEffect::NoSchedule,
                "NoExecute" => TaintEffect::NoExecute,
                _ => return None,
            };
            Some(Taint { key: taint.key.clone(), value: taint.value.clone(), effect })
        });
        let is_ready = self.status.conditions.iter().any(|known| known.kind == "Ready" && known.status == "True");
        PlannedNode {
            name: self.name_any().into(),
            allocatable: self.status.allocatable.iter().filter_map(read).collect(),
            labels: self.metadata.labels.clone().unwrap_or_default(),
            taints: taints.collect(),
            schedulable: is_ready && !self.spec.unschedulable,
        }
    }

    fn is_lost(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "Unknown")
    }
}

impl Nodes {
    /// When a pod may be removed by force; none if its node ends it.
    pub(crate) fn overdue_at(&self, pod: &SlimPod) -> Option<UnixTime> {
        let grace_ends_at = pod.grace_ends_at()?;
        let lost = self.0.read().unwrap_or_else(PoisonError::into_inner);
        lost.lost.contains(&pod.spec.node_name).then(|| grace_ends_at + MARGIN)
    }

    /// Whether a pod may be removed by force now.
    pub(crate) fn is_overdue(&self, pod: &SlimPod) -> bool {
        self.overdue_at(pod).is_some_and(|at| at <= now())
    }

    /// What the largest node has for pods; empty where no node is known.
    pub(crate) fn largest(&self) -> Resources {
        self.0.read().unwrap_or_else(PoisonError::into_inner).largest.clone()
    }

    /// All nodes for the planner.
    pub(crate) fn for_planner(&self) -> Vec<PlannedNode> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).nodes.values().cloned().collect()
    }

    /// Takes in a node, or its removal.
    fn apply(&self, name: String, is_lost: bool, node: Option<PlannedNode>) -> NodeChange {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = match node.clone() {
            Some(node) => known.nodes.insert(name.clone(), node),
            None => known.nodes.remove(&name),
        };
        let has_other_room = before != node;
        if has_other_room {
            known.find_largest();
        }
        let answers_or_not = if is_lost { known.lost.insert(name) } else { known.lost.remove(&name) };
        NodeChange { answers_or_not, has_other_room }
    }

    /// Forgets the nodes that are not among these.
    fn retain(&self, names: &BTreeSet<String>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.lost.retain(|node| names.contains(node));
        known.nodes.retain(|node, _| names.contains(node));
        known.find_largest();
    }
}

/// What is different about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeChange {
    /// It is lost now and was not, or the other way round.
    answers_or_not: bool,
    has_other_room: bool,
}

/// Keeps the nodes. The receiver hears when the first list is complete.
pub(crate) fn watch_nodes(shared: Arc<Shared>, queues: Queues, tasks: &mut Tasks) -> oneshot::Receiver<()> {
    let api = Api::<SlimNode>::all(shared.client.clone());
    let stream = watch(api, watches::config()).modify(SlimNode::trim);
    let (is_complete, complete) = oneshot::channel();
    tasks.spawn(async move {
        let mut is_complete = Some(is_complete);
        let mut listed = BTreeSet::new();
        let mut stream = std::pin::pin!(stream.backoff(WatchBackoff::default()));
        while let Some(event) = stream.next().await {
            let (name, is_lost, node) = match event {
                Ok(Event::Apply(node)) => (node.name_any(), node.is_lost(), Some(node.for_planner())),
                Ok(Event::InitApply(node)) => {
                    listed.insert(node.name_any());
                    (node.name_any(), node.is_lost(), Some(node.for_planner()))
                }
                Ok(Event::Delete(node)) => (node.name_any(), false, None),
                Ok(Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(Event::InitDone) => {
                    // Those that were removed while the watch was broken.
                    shared.nodes.retain(&std::mem::take(&mut listed));
                    shared.planning.changed.notify_one();
                    let _ = is_complete.take().map(|is_complete| is_complete.send(()));
                    continue;
                }
                Err(error) => {
                    tracing::warn!(what = "nodes", %error, "a watch broke; it is opened again");
                    continue;
                }
            };
            let change = shared.nodes.apply(name.clone(), is_lost, node);
            if change.answers_or_not {
                tracing::info!(node = name, is_lost, "a node answers or not");
                shared.pods.owners_where(|pod| pod.spec.node_name == name).iter().for_each(|job| queues.push(job));
            }
            if change.has_other_room {
                shared.planning.changed.notify_one();
            }
        }
        "the watch of nodes"
    });
    complete
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(ready: &str) -> SlimNode {
        let conditions = json!([{"type": "MemoryPressure", "status": "Unknown"}, {"type": "Ready", "status": ready}]);
        serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}})).unwrap()
    }

    fn terminating(deletion: &str) -> SlimPod {
        let metadata = json!({"name": "p", "deletionTimestamp": deletion});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"nodeName": "n"}})).unwrap()
    }

    #[test]
    fn only_a_node_in_an_unknown_state_is_lost() {
        assert_eq!([node("True"), node("False"), node("Unknown")].map(|node| node.is_lost()), [false, false, true]);
    }

    #[test]
    fn a_pod_is_overdue_after_its_grace_on_a_lost_node() {
        let lost = Nodes::default();
        let (past, future) = (terminating("2020-01-01T00:00:00Z"), terminating("2999-01-01T00:00:00Z"));
        assert!(!lost.is_overdue(&past), "the node answers");
        let apply = |is_lost| lost.apply("n".to_owned(), is_lost, None).answers_or_not;
        assert!(apply(true) && !apply(true));
        assert!(lost.is_overdue(&past) && !lost.is_overdue(&future));
        assert_eq!(lost.overdue_at(&future), future.grace_ends_at().map(|at| at + MARGIN));
        assert!(apply(false));
        assert!(!lost.is_overdue(&past), "the node is back");
    }

    #[test]
    fn the_largest_node_is_known_until_it_is_removed() {
        let nodes = Nodes::default();
        let sized = |cpu: &str| {
            let allocatable = json!({"cpu": cpu, "memory": "4Gi", "pods": "110"});
            serde_json::from_value::<SlimNode>(json!({"metadata": {}, "status": {"allocatable": allocatable}})).unwrap()
        };
        for (name, cpu) in [("small", "1500m"), ("large", "4")] {
            nodes.apply(name.to_owned(), false, Some(sized(cpu).for_planner()));
        }
        assert_eq!(nodes.largest().to_string(), "cpu=4 memory=4Gi");
        nodes.apply("large".to_owned(), false, None);
        assert_eq!(nodes.largest().to_string(), "cpu=1500m memory=4Gi");
    }

    #[test]
    fn a_node_that_was_removed_unseen_is_forgotten() {
        let lost = Nodes::default();
        lost.apply("n".to_owned(), true, None);
        lost.retain(&BTreeSet::from(["m".to_owned()]));
        assert!(!lost.is_overdue(&terminating("2020-01-01T00:00:00Z")));
    }
}
