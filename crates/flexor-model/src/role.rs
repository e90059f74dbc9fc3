//! One role of a job: pods that are alike and scale together.

use serde::{Deserialize, Serialize};

use crate::{PodTemplate, Rank, ReplicaRange, Resources, RoleName, RoleNaming};

/// A role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Role {
    /// Its name as the dialect's users write it.
    pub name: RoleName,
    /// What it does.
    pub kind: RoleKind,
    /// How many replicas it starts with.
    pub replicas: u32,
    /// Between which numbers it may move.
    pub range: ReplicaRange,
    /// Whether Flexor may move it by itself.
    pub auto_scale: bool,
    /// What each pod asks for.
    pub requests: Resources,
    /// What each pod may not exceed.
    pub limits: Resources,
    /// How many failures of the program each node is forgiven. Losses of infrastructure are never counted.
    pub restart_limit: u32,
    /// How important its pods are to the scheduler.
    pub priority: RolePriority,
    /// What its pods are made from.
    pub template: PodTemplate,
    /// How its things are called.
    pub naming: RoleNaming,
}

/// What a role does in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RoleKind {
    /// Coordinates the job.
    Master,
    /// Holds parameters.
    ParameterServer,
    /// The worker that also saves and exports.
    Chief,
    /// Computes gradients.
    Worker,
    /// Measures the model on other data.
    Evaluator,
    /// Something of the user's own that is only kept running.
    Other,
}

/// The priority class of a role's pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RolePriority {
    /// Whatever the pod template says.
    FromTemplate,
    /// One class for all.
    Class(String),
    /// Some pods are `high`, the rest `low`.
    Split(PrioritySplit),
}

/// Which share of a role is important.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrioritySplit {
    /// How many replicas get the class `high`; the others get `low`.
    pub high: u32,
    /// Which ranks those are.
    pub order: SplitOrder,
}

/// Which ranks of a role are the important ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SplitOrder {
    /// The first.
    First,
    /// From both ends in turn: the first, the last, the second, the last but one, ….
    BothEnds,
}

impl PrioritySplit {
    /// Whether the pod of this rank, of so many, is important.
    pub fn is_high(self, rank: Rank, replicas: u32) -> bool {
        match self.order {
            SplitOrder::First => rank.0 < self.high,
            SplitOrder::BothEnds => {
                let from_front = rank.0 < self.high.div_ceil(2);
                let from_back = replicas.saturating_sub(rank.0) <= self.high / 2;
                from_front || from_back
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_says_which_ranks_are_high() {
        let high = |order, high| -> Vec<u32> {
            let split = PrioritySplit { high, order };
            (0..5).filter(|rank| split.is_high(Rank(*rank), 5)).collect()
        };
        assert_eq!(high(SplitOrder::First, 3), [0, 1, 2]);
        assert_eq!(high(SplitOrder::BothEnds, 3), [0, 1, 4]);
        assert!(high(SplitOrder::BothEnds, 0).is_empty());
        assert_eq!(high(SplitOrder::BothEnds, 5), [0, 1, 2, 3, 4]);
    }
}
