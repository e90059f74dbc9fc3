//! How many replicas a role may have.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// `min..=max` replicas, with `min <= max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Bounds")]
pub struct ReplicaRange {
    min: u32,
    max: u32,
}

/// The bounds as they are written, before they are known to be in order.
#[derive(Deserialize)]
struct Bounds {
    min: u32,
    max: u32,
}

/// The bounds are the wrong way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the minimum {min} is above the maximum {max}")]
pub struct RangeError {
    /// The lower bound given.
    pub min: u32,
    /// The upper bound given.
    pub max: u32,
}

impl ReplicaRange {
    /// The range from `min` to `max`, both included.
    pub fn new(min: u32, max: u32) -> Result<Self, RangeError> {
        if min > max { Err(RangeError { min, max }) } else { Ok(Self { min, max }) }
    }

    /// The range that holds only `n`: a role that does not scale.
    pub fn exactly(n: u32) -> Self {
        Self { min: n, max: n }
    }

    /// The fewest replicas with which the role can work.
    pub fn min(self) -> u32 {
        self.min
    }

    /// The most replicas the role can use.
    pub fn max(self) -> u32 {
        self.max
    }

    /// Whether `n` replicas are allowed.
    pub fn contains(self, n: u32) -> bool {
        (self.min..=self.max).contains(&n)
    }

    /// Whether there is any choice.
    pub fn is_elastic(self) -> bool {
        self.min < self.max
    }
}

impl TryFrom<Bounds> for ReplicaRange {
    type Error = RangeError;

    fn try_from(bounds: Bounds) -> Result<Self, RangeError> {
        Self::new(bounds.min, bounds.max)
    }
}

impl fmt::Display for ReplicaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_elastic() { write!(f, "{}..{}", self.min, self.max) } else { write!(f, "{}", self.min) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_never_has_its_minimum_above_its_maximum() {
        assert_eq!(ReplicaRange::new(3, 2), Err(RangeError { min: 3, max: 2 }));
        assert!(serde_json::from_str::<ReplicaRange>(r#"{"min":3,"max":2}"#).is_err());
        let range = ReplicaRange::new(2, 60).unwrap();
        assert!(range.is_elastic() && range.contains(60) && !range.contains(1));
        assert_eq!((range.to_string(), ReplicaRange::exactly(4).to_string()), ("2..60".into(), "4".into()));
    }
}
