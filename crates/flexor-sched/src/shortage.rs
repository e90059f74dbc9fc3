//! What a held job lacks, in numbers.

use std::collections::BTreeMap;
use std::fmt;

use flexor_model::RoleName;

use crate::Amount;
use crate::classes::fitting;
use crate::index::{ClassIx, GroupIx, NodeIx};
use crate::state::State;

/// Why the missing base pods of a job cannot be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortage {
    /// They do not fit even into the empty cluster.
    Cluster {
        /// The sum that they need of the resource that is shortest.
        needs: Amount,
        /// The allocatable sum of the nodes that accept them.
        total: Amount,
    },
    /// A resource is short in sum.
    Sum {
        /// The sum that they need of the resource that is shortest.
        needs: Amount,
        /// What is free when all pods that are ending are gone.
        free: Amount,
        /// What surplus pods hold.
        freeable: Amount,
    },
    /// No resource is short in sum, but the nodes do not fit all pods.
    Fragments {
        /// The role that does not fit.
        role: RoleName,
        /// Its missing base pods.
        pods: u32,
        /// The pods of them that fit.
        fit: u32,
    },
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster { needs, total } => {
                write!(f, "needs {needs}; the nodes that accept it have {}", total.number())
            }
            Self::Sum { needs, free, freeable } => {
                write!(f, "needs {needs}; {} free, {} could be freed", free.number(), freeable.number())
            }
            Self::Fragments { role, pods, fit } => {
                write!(f, "{role} needs room for {pods} pods; the nodes have room for {fit}")
            }
        }
    }
}

impl Shortage {
    /// A shortage that sums show, or the number of pods that each node could hold, before anything is placed.
    pub(crate) fn before(state: &State, demand: &BTreeMap<ClassIx, u32>) -> Option<Self> {
        let mut needs = vec![0_i128; state.units.width()];
        for (class, pods) in demand {
            let one = &state.classes.get(*class).need;
            needs.iter_mut().zip(one).for_each(|(sum, need)| *sum += i128::from(*need) * i128::from(*pods));
        }
        Self::of_sums(state, demand, &needs).or_else(|| {
            let (class, pods, fit) = demand.iter().find_map(|(class, pods)| {
                let fit = most_pods(state, *class);
                (fit < *pods).then_some((*class, *pods, fit))
            })?;
            let role = state.groups.iter().find(|group| group.class == class)?.name.clone();
            Some(Self::Fragments { role, pods, fit })
        })
    }

    /// The resource that is shortest, if one is.
    fn of_sums(state: &State, demand: &BTreeMap<ClassIx, u32>, needs: &[i128]) -> Option<Self> {
        let accepted = |node: &NodeIx| demand.keys().any(|class| state.classes.get(*class).accepted_by(*node));
        let nodes: Vec<NodeIx> = NodeIx::all(state.ledger.nodes()).filter(accepted).collect();
        let mut shortest: Option<(i128, Self)> = None;
        for (position, needed) in needs.iter().copied().enumerate().filter(|(_, needed)| *needed > 0) {
            let sum = |of: &dyn Fn(NodeIx) -> i64| nodes.iter().map(|node| i128::from(of(*node).max(0))).sum::<i128>();
            let total = sum(&|node| state.ledger.allocatable(node)[position]);
            let free = sum(&|node| state.ledger.after(node)[position]);
            let most = sum(&|node| state.potential[node.get()][position]);
            if most >= needed {
                continue;
            }
            // In thousandths of the need, so that cores and bytes can be compared.
            let lack = (needed - most) * 1000 / needed;
            if shortest.as_ref().is_none_or(|(worst, _)| lack > *worst) {
                let amount = |value: i128| state.units.amount(position, value);
                let found = if total < needed {
                    Self::Cluster { needs: amount(needed), total: amount(total) }
                } else {
                    Self::Sum { needs: amount(needed), free: amount(free), freeable: amount(most - free) }
                };
                shortest = Some((lack, found));
            }
        }
        shortest.map(|(_, shortage)| shortage)
    }

    /// After an attempt in which so many of a role's pods found no place.
    pub(crate) fn fragments(state: &State, group: GroupIx, left: usize, pods: usize) -> Self {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self::Fragments { role: state.group(group).name.clone(), pods: count(pods), fit: count(pods - left) }
    }
}

/// How many pods of one class would fit if all surplus were gone.
fn most_pods(state: &State, class: ClassIx) -> u32 {
    let class = state.classes.get(class);
    let nodes = NodeIx::all(state.ledger.nodes()).filter(|node| class.accepted_by(*node));
    nodes.map(|node| fitting(&state.potential[node.get()], &class.need)).fold(0, u32::saturating_add)
}
