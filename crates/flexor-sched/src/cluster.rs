//! The input of the planner: nodes, and all pods that hold room on them.
//!
//! A driver fills these from its watches. It leaves out pods that have ended: they hold no room. It includes pods that
//! it has asked for but does not observe yet; otherwise the next plan would ask for them again.

use std::collections::BTreeMap;

use flexor_model::{Rank, Resources, RoleName};

use crate::{JobKey, NodeName};

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: NodeName,
    /// The resources for pods. Without `pods` in it, the number of pods is not limited.
    pub allocatable: Resources,
    /// Labels, for node selectors.
    pub labels: BTreeMap<String, String>,
    /// Taints, which only tolerating pods pass.
    pub taints: Vec<Taint>,
    /// Whether it is ready and not cordoned.
    pub schedulable: bool,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    /// Its value, often empty.
    pub value: String,
    pub effect: TaintEffect,
}

/// The effect of a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    /// No new pod without a toleration.
    NoSchedule,
    /// A preference. The planner ignores it, as the scheduler does when room is short.
    PreferNoSchedule,
    /// No pod without a toleration at all.
    NoExecute,
}

/// A toleration of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toleration {
    /// The key of the taint; every key if there is none.
    pub key: Option<String>,
    /// The value of the taint; every value if there is none.
    pub value: Option<String>,
    /// The effect; every effect if there is none.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    fn tolerates(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self.value.as_ref().is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// The requirements of a pod that the scheduler will check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodShape {
    /// The effective requests, as the scheduler computes them.
    pub requests: Resources,
    pub node_selector: BTreeMap<String, String>,
    pub tolerations: Vec<Toleration>,
}

/// The labels and taints that a node must have for a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Constraints {
    pub node_selector: BTreeMap<String, String>,
    pub tolerations: Vec<Toleration>,
}

impl Constraints {
    /// Whether the scheduler could put such a pod on the node if there were room.
    pub(crate) fn accept(&self, node: &Node) -> bool {
        let selected = || self.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
        let tolerated = |taint: &Taint| match taint.effect {
            TaintEffect::PreferNoSchedule => true,
            TaintEffect::NoSchedule | TaintEffect::NoExecute => self.tolerations.iter().any(|t| t.tolerates(taint)),
        };
        node.schedulable && selected() && node.taints.iter().all(tolerated)
    }
}

/// A pod that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The effective requests, as the scheduler computes them.
    pub requests: Resources,
    /// The node whose room it holds.
    pub location: Location,
    /// Whether its deletion has begun. It holds its room until it is gone.
    pub terminating: bool,
    /// Whether it was created long ago and still does not run. A surplus pod is given up then.
    pub overdue: bool,
    /// The planned job that it belongs to. All other pods are never touched.
    pub owner: Option<PodSlot>,
}

/// The place of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// Pending without a node.
    Unassigned,
    /// Pending; this node is in its affinity, or the scheduler nominated it.
    Assigned(NodeName),
    /// Bound to the node.
    Bound(NodeName),
}

impl Location {
    /// The node, if there is one.
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Unassigned => None,
            Self::Assigned(node) | Self::Bound(node) => Some(node),
        }
    }
}

/// The slot of a pod in its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSlot {
    pub job: JobKey,
    pub role: RoleName,
    pub rank: Rank,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        Node {
            name: "n".into(),
            allocatable: Resources::default(),
            labels: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
            taints: Vec::new(),
            schedulable: true,
        }
    }

    fn taint(effect: TaintEffect) -> Taint {
        Taint { key: "gpu".to_owned(), value: "yes".to_owned(), effect }
    }

    #[test]
    fn selectors_cordons_and_taints_are_respected() {
        let any = Constraints::default();
        let in_zone = |zone: &str| Constraints {
            node_selector: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
            ..Constraints::default()
        };
        assert!(any.accept(&node()) && in_zone("a").accept(&node()) && !in_zone("b").accept(&node()));
        assert!(!any.accept(&Node { schedulable: false, ..node() }));
        for effect in [TaintEffect::NoSchedule, TaintEffect::NoExecute] {
            assert!(!any.accept(&Node { taints: vec![taint(effect)], ..node() }));
        }
        assert!(any.accept(&Node { taints: vec![taint(TaintEffect::PreferNoSchedule)], ..node() }));
    }

    #[test]
    fn a_toleration_without_a_key_tolerates_everything() {
        let tainted = Node { taints: vec![taint(TaintEffect::NoSchedule)], ..node() };
        let with = |toleration: Toleration| Constraints { tolerations: vec![toleration], ..Constraints::default() };
        let everything = Toleration { key: None, value: None, effect: None };
        assert!(with(everything.clone()).accept(&tainted));
        assert!(with(Toleration { key: Some("gpu".to_owned()), ..everything.clone() }).accept(&tainted));
        assert!(!with(Toleration { value: Some("no".to_owned()), ..everything.clone() }).accept(&tainted));
        assert!(!with(Toleration { effect: Some(TaintEffect::NoExecute), ..everything }).accept(&tainted));
    }
}
