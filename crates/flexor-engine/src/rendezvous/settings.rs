//! What a rendezvous is told once, at its start.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How long a round waits for a node that is alive but does not come back to join, where nothing else is said.
pub const STRAGGLER_LIMIT: Duration = Duration::from_secs(60);

/// The sizes a world may have and how long is waited for whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The smallest world that may train, at least 1.
    pub min: u32,
    /// The greatest world, at least `min`. Nodes beyond it are kept as spares.
    pub max: u32,
    /// A world's size is a multiple of this.
    pub unit: u32,
    /// How long a round with enough nodes waits for more, where it is not known how many will come.
    pub last_call: Duration,
    /// After how much silence a node counts as lost.
    pub silence: Duration,
    /// How long nodes have to come back after the master was started again, before silence counts.
    pub reconnect_grace: Duration,
    /// How long a round waits for a node that is alive but does not come back to join.
    pub straggler_limit: Duration,
    /// How many times the program may fail before the run is closed.
    pub max_restarts: u32,
}

/// Sizes that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// A world of nobody.
    #[error("the smallest world must have at least 1 node")]
    NoMinimum,
    /// The range is empty.
    #[error("the greatest world ({max}) is smaller than the smallest ({min})")]
    EmptyRange {
        /// The smallest world.
        min: u32,
        /// The greatest world.
        max: u32,
    },
    /// No multiple of the unit is in the range.
    #[error("no multiple of the node unit {unit} lies between {min} and {max}")]
    NoMultiple {
        /// The node unit.
        unit: u32,
        /// The smallest world.
        min: u32,
        /// The greatest world.
        max: u32,
    },
}

impl Settings {
    /// Settings for worlds of `min` to `max` nodes, with the times of torchrun where it has them.
    pub fn new(min: u32, max: u32) -> Result<Self, SettingsError> {
        Self {
            min,
            max,
            unit: 1,
            last_call: Duration::from_secs(30),
            silence: Duration::from_secs(10),
            reconnect_grace: Duration::from_secs(6),
            straggler_limit: STRAGGLER_LIMIT,
            max_restarts: 3,
        }
        .checked()
    }

    /// The settings with another node unit.
    pub fn with_unit(self, unit: u32) -> Result<Self, SettingsError> {
        Self { unit, ..self }.checked()
    }

    /// The size of the world that `nodes` can form: the greatest multiple of the unit that is no greater than `nodes`
    /// and `max`, if that is not below `min`.
    pub fn world_of(&self, nodes: u32) -> Option<u32> {
        let size = nodes.min(self.max) / self.unit * self.unit;
        (size >= self.min && size > 0).then_some(size)
    }

    fn checked(self) -> Result<Self, SettingsError> {
        let Self { min, max, unit, .. } = self;
        if min == 0 || unit == 0 {
            return Err(SettingsError::NoMinimum);
        }
        if max < min {
            return Err(SettingsError::EmptyRange { min, max });
        }
        if self.world_of(max).is_none() {
            return Err(SettingsError::NoMultiple { unit, min, max });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_is_a_multiple_of_the_unit_inside_the_range() {
        let settings = Settings::new(2, 7).and_then(|settings| settings.with_unit(2)).unwrap();
        let sizes: Vec<_> = (0..10).map(|nodes| settings.world_of(nodes)).collect();
        assert_eq!(sizes, [None, None, Some(2), Some(2), Some(4), Some(4), Some(6), Some(6), Some(6), Some(6)]);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert_eq!(Settings::new(0, 3), Err(SettingsError::NoMinimum));
        assert_eq!(Settings::new(3, 2), Err(SettingsError::EmptyRange { min: 3, max: 2 }));
        let none = Settings::new(5, 7).and_then(|settings| settings.with_unit(4));
        assert_eq!(none, Err(SettingsError::NoMultiple { unit: 4, min: 5, max: 7 }));
    }
}
