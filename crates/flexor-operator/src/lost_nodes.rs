//! The nodes that do not answer. Pods that terminate there keep their names for ever: no kubelet confirms their end.
//!
//! A node whose kubelet reports that it is not ready still ends its pods, so only an unknown state counts as lost. The
//! pods of a node that was removed are collected by Kubernetes itself.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use flexor_model::UnixTime;
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
pub(crate) struct LostNodes(RwLock<BTreeSet<String>>);

/// A node with only the fields that decide something.
#[derive(Debug, Clone, Resource, Serialize, Deserialize)]
#[resource(inherit = Node)]
pub(crate) struct SlimNode {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    status: SlimNodeStatus,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct SlimNodeStatus {
    conditions: Vec<SlimCondition>,
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
        self.metadata.labels = None;
    }

    fn is_lost(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "Unknown")
    }
}

impl LostNodes {
    /// When a pod may be removed by force; none if its node ends it.
    pub(crate) fn overdue_at(&self, pod: &SlimPod) -> Option<UnixTime> {
        let grace_ends_at = pod.grace_ends_at()?;
        let lost = self.0.read().unwrap_or_else(PoisonError::into_inner);
        lost.contains(&pod.spec.node_name).then(|| grace_ends_at + MARGIN)
    }

    /// Whether a pod may be removed by force now.
    pub(crate) fn is_overdue(&self, pod: &SlimPod) -> bool {
        self.overdue_at(pod).is_some_and(|at| at <= now())
    }

    /// Takes in a node. Returns whether that changes anything.
    fn apply(&self, name: String, is_lost: bool) -> bool {
        let mut lost = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if is_lost { lost.insert(name) } else { lost.remove(&name) }
    }

    /// Forgets the nodes that are not among these.
    fn retain(&self, names: &BTreeSet<String>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|node| names.contains(node));
    }
}

/// Keeps the lost nodes. The receiver hears when the first list is complete.
pub(crate) fn watch_nodes(shared: Arc<Shared>, queues: Queues, tasks: &mut Tasks) -> oneshot::Receiver<()> {
    let api = Api::<SlimNode>::all(shared.client.clone());
    let stream = watch(api, watches::config()).modify(SlimNode::trim);
    let (is_complete, complete) = oneshot::channel();
    tasks.spawn(async move {
        let mut is_complete = Some(is_complete);
        let mut listed = BTreeSet::new();
        let mut stream = std::pin::pin!(stream.backoff(WatchBackoff::default()));
        while let Some(event) = stream.next().await {
            let (node, is_lost) = match event {
                Ok(Event::Apply(node)) => (node.name_any(), node.is_lost()),
                Ok(Event::InitApply(node)) => {
                    listed.insert(node.name_any());
                    (node.name_any(), node.is_lost())
                }
                Ok(Event::Delete(node)) => (node.name_any(), false),
                Ok(Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(Event::InitDone) => {
                    // Those that were removed while the watch was broken.
                    shared.lost_nodes.retain(&std::mem::take(&mut listed));
                    let _ = is_complete.take().map(|is_complete| is_complete.send(()));
                    continue;
                }
                Err(error) => {
                    tracing::warn!(what = "nodes", %error, "a watch broke; it is opened again");
                    continue;
                }
            };
            if shared.lost_nodes.apply(node.clone(), is_lost) {
                tracing::info!(node, is_lost, "a node answers or not");
                shared.pods.owners_where(|pod| pod.spec.node_name == node).iter().for_each(|job| queues.push(job));
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
        let lost = LostNodes::default();
        let (past, future) = (terminating("2020-01-01T00:00:00Z"), terminating("2999-01-01T00:00:00Z"));
        assert!(!lost.is_overdue(&past), "the node answers");
        assert!(lost.apply("n".to_owned(), true) && !lost.apply("n".to_owned(), true));
        assert!(lost.is_overdue(&past) && !lost.is_overdue(&future));
        assert_eq!(lost.overdue_at(&future), future.grace_ends_at().map(|at| at + MARGIN));
        assert!(lost.apply("n".to_owned(), false));
        assert!(!lost.is_overdue(&past), "the node is back");
    }

    #[test]
    fn a_node_that_was_removed_unseen_is_forgotten() {
        let lost = LostNodes::default();
        lost.apply("n".to_owned(), true);
        lost.retain(&BTreeSet::from(["m".to_owned()]));
        assert!(!lost.is_overdue(&terminating("2020-01-01T00:00:00Z")));
    }
}
