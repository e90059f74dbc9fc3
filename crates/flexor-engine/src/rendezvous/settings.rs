//! The settings of a rendezvous, fixed at its start.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The default of [`Settings::straggler_limit`].
pub const STRAGGLER_LIMIT: Duration = Duration::from_secs(60);

/// The sizes that a world may have, and the timeouts of a rendezvous.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The minimum number of nodes, at least 1.
    pub min: u32,
    /// The maximum number of nodes, at least `min`. Further nodes are standbys.
    pub max: u32,
    /// The size of a world is a multiple of this.
    pub unit: u32,
    /// How long a round with enough nodes waits for more, where the number of nodes to come is unknown.
    pub last_call: Duration,
    /// How long a node may be silent before it is lost.
    pub silence: Duration,
    /// How long nodes have to reconnect after a restart of the master.
    pub reconnect_grace: Duration,
    /// How long a round waits for a node that is alive but does not join again.
    pub straggler_limit: Duration,
    /// How many times the program may fail before the run closes.
    pub max_restarts: u32,
}

/// Invalid sizes of a world.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    #[error("the minimum world size and the node unit must be at least 1")]
    NoMinimum,
    #[error("the maximum world size ({max}) is smaller than the minimum ({min})")]
    EmptyRange { min: u32, max: u32 },
    #[error("no multiple of the node unit {unit} lies between {min} and {max}")]
    NoMultiple { unit: u32, min: u32, max: u32 },
}

impl Settings {
    /// Settings for worlds of `min` to `max` nodes, with torchrun's timeouts where it has them.
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

    /// The same settings with another node unit.
    pub fn with_unit(self, unit: u32) -> Result<Self, SettingsError> {
        Self { unit, ..self }.checked()
    }

    /// The size of the world that `nodes` nodes can form: the greatest multiple of the unit up to `nodes` and `max`. None
    /// if that is below `min`.
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
    fn invalid_sizes_are_refused() {
        assert_eq!(Settings::new(0, 3), Err(SettingsError::NoMinimum));
        assert_eq!(Settings::new(3, 2), Err(SettingsError::EmptyRange { min: 3, max: 2 }));
        let none = Settings::new(5, 7).and_then(|settings| settings.with_unit(4));
        assert_eq!(none, Err(SettingsError::NoMultiple { unit: 4, min: 5, max: 7 }));
    }
}
