//! How many replicas a role may have.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The most replicas that a role can have; a world has no more nodes.
pub const MOST_REPLICAS: u32 = 16_384;

/// Into how many parts the parameters of a model are divided: more parameter servers than that have nothing to keep.
pub const PARTITIONS: u32 = 256;

/// `min..=max` replicas with `min <= max`, or everything from `min` upwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Bounds")]
pub struct ReplicaRange {
    min: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
}

/// The bounds as they are written, before they are known to be in order.
#[derive(Deserialize)]
struct Bounds {
    min: u32,
    max: Option<u32>,
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
    /// From `min` to `max`, both included.
    pub fn new(min: u32, max: u32) -> Result<Self, RangeError> {
        if min > max { Err(RangeError { min, max }) } else { Ok(Self { min, max: Some(max) }) }
    }

    /// From `min` upwards without end.
    pub fn at_least(min: u32) -> Self {
        Self { min, max: None }
    }

    /// Only `n`.
    pub fn exactly(n: u32) -> Self {
        Self { min: n, max: Some(n) }
    }

    /// The fewest.
    pub fn min(self) -> u32 {
        self.min
    }

    /// The most, if there is such a number.
    pub fn max(self) -> Option<u32> {
        self.max
    }

    /// Whether `n` lies inside.
    pub fn contains(self, n: u32) -> bool {
        self.min <= n && self.max.is_none_or(|max| n <= max)
    }

    /// Whether all of `other` lies inside.
    pub fn covers(self, other: Self) -> bool {
        let above = match (self.max, other.max) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(mine), Some(others)) => others <= mine,
        };
        self.min <= other.min && above
    }

    /// Whether there is any choice.
    pub fn is_elastic(self) -> bool {
        self.max != Some(self.min)
    }
}

impl TryFrom<Bounds> for ReplicaRange {
    type Error = RangeError;

    fn try_from(bounds: Bounds) -> Result<Self, RangeError> {
        match bounds.max {
            Some(max) => Self::new(bounds.min, max),
            None => Ok(Self::at_least(bounds.min)),
        }
    }
}

impl fmt::Display for ReplicaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.max {
            Some(max) if max == self.min => write!(f, "{max}"),
            Some(max) => write!(f, "{}..{max}", self.min),
            None => write!(f, "{}..", self.min),
        }
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
    }

    #[test]
    fn a_range_may_be_open_above() {
        let open: ReplicaRange = serde_json::from_str(r#"{"min":1}"#).unwrap();
        assert!(open.contains(u32::MAX) && !open.contains(0) && open.is_elastic());
        assert!(open.covers(ReplicaRange::exactly(7)) && !ReplicaRange::exactly(7).covers(open));
    }

    #[test]
    fn a_range_is_printed_as_people_write_it() {
        let shown = [ReplicaRange::exactly(4), ReplicaRange::new(2, 60).unwrap(), ReplicaRange::at_least(1)];
        assert_eq!(shown.map(|range| range.to_string()), ["4", "2..60", "1.."]);
    }
}
