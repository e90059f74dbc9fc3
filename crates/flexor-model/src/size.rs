//! The replicas of a role: how many at first, how many are allowed, and the range of automatic scaling.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ReplicaRange;

/// The replicas of a role. The initial number and the automatic range always lie in the allowed range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct RoleSize {
    initial: u32,
    allowed: ReplicaRange,
    #[serde(skip_serializing_if = "Option::is_none")]
    automatic: Option<ReplicaRange>,
}

#[derive(Deserialize)]
struct Unchecked {
    initial: u32,
    allowed: ReplicaRange,
    automatic: Option<ReplicaRange>,
}

/// Why the numbers contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SizeError {
    /// The initial number lies outside of the allowed range.
    #[error("{initial} replicas are outside of {allowed}")]
    Initial {
        /// The initial number.
        initial: u32,
        /// The allowed range.
        allowed: ReplicaRange,
    },
    /// The automatic range leaves the allowed range.
    #[error("the range for automatic scaling {automatic} leaves {allowed}")]
    Automatic {
        /// The automatic range.
        automatic: ReplicaRange,
        /// The allowed range.
        allowed: ReplicaRange,
    },
}

impl RoleSize {
    /// A role that only its user scales.
    pub fn manual(initial: u32, allowed: ReplicaRange) -> Result<Self, SizeError> {
        Self::checked(initial, allowed, None)
    }

    /// A role that Flexor scales too, inside `automatic`.
    pub fn automatic(initial: u32, allowed: ReplicaRange, automatic: ReplicaRange) -> Result<Self, SizeError> {
        Self::checked(initial, allowed, Some(automatic))
    }

    /// A role that always has the same number of replicas.
    pub fn fixed(n: u32) -> Self {
        Self { initial: n, allowed: ReplicaRange::exactly(n), automatic: None }
    }

    fn checked(initial: u32, allowed: ReplicaRange, automatic: Option<ReplicaRange>) -> Result<Self, SizeError> {
        if !allowed.contains(initial) {
            return Err(SizeError::Initial { initial, allowed });
        }
        match automatic {
            Some(automatic) if !allowed.covers(automatic) => Err(SizeError::Automatic { automatic, allowed }),
            automatic => Ok(Self { initial, allowed, automatic }),
        }
    }

    /// How many replicas it starts with.
    pub fn initial(self) -> u32 {
        self.initial
    }

    /// What its user may scale it to.
    pub fn allowed(self) -> ReplicaRange {
        self.allowed
    }

    /// What Flexor may scale it to by itself.
    pub fn automatically(self) -> Option<ReplicaRange> {
        self.automatic
    }
}

impl TryFrom<Unchecked> for RoleSize {
    type Error = SizeError;

    fn try_from(size: Unchecked) -> Result<Self, SizeError> {
        Self::checked(size.initial, size.allowed, size.automatic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_never_contradicts_itself() {
        let few = ReplicaRange::new(1, 4).unwrap();
        assert!(RoleSize::manual(5, few).is_err());
        assert!(RoleSize::automatic(2, few, ReplicaRange::at_least(1)).is_err());
        let size = RoleSize::automatic(2, few, ReplicaRange::new(2, 3).unwrap()).unwrap();
        let json = serde_json::to_string(&size).unwrap();
        assert_eq!(serde_json::from_str::<RoleSize>(&json).unwrap(), size);
        assert!(serde_json::from_str::<RoleSize>(&json.replace("\"initial\":2", "\"initial\":9")).is_err());
    }
}
