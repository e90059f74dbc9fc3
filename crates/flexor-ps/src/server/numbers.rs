//! The numbers that servers compare. Each counts something else, and none may stand in another's place.
//!
//! Maps are [`flexor_model::PsEpoch`]s.

use std::fmt;

/// Which beginning of a partition: each has the next number, and what belongs to an earlier one is worth nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Origin(pub(super) u64);

/// A copy, by the number of the master's order to make it. Later ones have higher numbers, whoever makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct CopyNumber(pub(super) u64);

/// A change of a partition, in the order in which they are applied. Also how far a partition is: the last that is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Turn {
    pub(super) origin: Origin,
    /// Counted from the beginning, which is at 0.
    pub(super) change: u64,
}

impl Turn {
    /// A partition that has just begun.
    pub(super) fn beginning(origin: Origin) -> Self {
        Self { origin, change: 0 }
    }

    /// The change after this one.
    pub(super) fn next(self) -> Self {
        Self { change: self.change + 1, ..self }
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "change {} of beginning {}", self.change, self.origin.0)
    }
}
