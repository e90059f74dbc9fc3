//! The priority class of a role's pods, which the scheduler preempts by.

use serde::{Deserialize, Serialize};

use crate::Rank;

/// The priority class of a role's pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RolePriority {
    /// The class that the pod template names, if any.
    FromTemplate,
    /// One class for all pods of the role.
    Class(String),
    /// A share of the pods is `high`, the rest `low`.
    Split(PrioritySplit),
}

/// The share of a role's pods that has class `high`. Scaling the role keeps the share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PrioritySplit {
    /// From 0 to 1.
    pub share: f64,
    pub rounding: Rounding,
    pub order: SplitOrder,
    /// How many pods of another role count before rank 0: a chief that was split off.
    pub before: u32,
}

/// How a fraction of a pod is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rounding {
    Down,
    Up,
    /// A half is rounded up.
    Nearest,
}

/// Which ranks of a role are `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SplitOrder {
    First,
    /// From both ends in turn: the first, the last, the second, the last but one, ….
    BothEnds,
}

impl PrioritySplit {
    /// Whether the pod of `rank` is `high`, in a role of so many replicas.
    pub fn is_high(self, rank: Rank, replicas: u32) -> bool {
        let (place, pods) = (rank.0.saturating_add(self.before), replicas.saturating_add(self.before));
        let exact = f64::from(pods) * self.share.clamp(0.0, 1.0);
        let rounded = match self.rounding {
            Rounding::Down => exact.floor(),
            Rounding::Up => exact.ceil(),
            Rounding::Nearest => exact.round(),
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a u32")]
        let high = rounded as u32;
        match self.order {
            SplitOrder::First => place < high,
            SplitOrder::BothEnds => place < high.div_ceil(2) || pods.saturating_sub(place) <= high / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn high(split: PrioritySplit, replicas: u32) -> Vec<u32> {
        (0..replicas).filter(|rank| split.is_high(Rank(*rank), replicas)).collect()
    }

    const HALF: PrioritySplit =
        PrioritySplit { share: 0.5, rounding: Rounding::Up, order: SplitOrder::First, before: 0 };

    #[test]
    fn a_split_says_which_ranks_are_high() {
        assert_eq!(high(HALF, 5), [0, 1, 2]);
        assert_eq!(high(PrioritySplit { rounding: Rounding::Down, ..HALF }, 5), [0, 1]);
        assert_eq!(high(PrioritySplit { order: SplitOrder::BothEnds, ..HALF }, 5), [0, 1, 4]);
        assert_eq!(high(PrioritySplit { order: SplitOrder::BothEnds, share: 1.0, ..HALF }, 4), [0, 1, 2, 3]);
        assert!(high(PrioritySplit { order: SplitOrder::BothEnds, share: 0.0, ..HALF }, 4).is_empty());
    }

    #[test]
    fn a_share_stays_the_same_share_when_the_role_grows() {
        assert_eq!((high(HALF, 2).len(), high(HALF, 8).len()), (1, 4));
    }

    #[test]
    fn a_chief_that_was_split_off_takes_one_of_the_high_places() {
        assert_eq!(high(PrioritySplit { before: 1, ..HALF }, 3), [0]);
    }
}
