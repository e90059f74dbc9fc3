//! What a server is started with.

use std::num::NonZeroU32;

use crate::spec::Optimizer;

/// How a server works; all servers of a job have the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How gradients move values.
    pub optimizer: Optimizer,
    /// When they do.
    pub mode: Mode,
    /// What the values of rows are drawn from.
    pub seed: u64,
}

/// When gradients are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As they come.
    Async {
        /// Whether the learning rate is divided by the number of updates since the worker's pull.
        modulates_rate: bool,
    },
    /// Several pushes together, as one update.
    Sync {
        /// How many pushes make an update.
        grads_to_wait: NonZeroU32,
        /// How many updates gradients may be behind; others are rejected.
        tolerance: u32,
    },
}

impl Mode {
    /// Whether gradients of a version may be applied to another.
    pub(super) fn takes(self, gradients: i32, server: i32) -> bool {
        match self {
            Self::Async { .. } => true,
            Self::Sync { tolerance, .. } => staleness(gradients, server) <= u64::from(tolerance),
        }
    }

    /// The learning rate of a push, of what it asks for and what is configured.
    pub(super) fn rate(self, asked: f32, configured: f32, gradients: i32, server: i32) -> f32 {
        let rate = if asked > 0.0 { asked } else { configured };
        match self {
            Self::Async { modulates_rate: true } => rate / staleness(gradients, server).max(1) as f32,
            Self::Async { modulates_rate: false } | Self::Sync { .. } => rate,
        }
    }
}

/// How many updates came since.
fn staleness(gradients: i32, server: i32) -> u64 {
    u64::try_from(i64::from(server) - i64::from(gradients)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_gradients_are_rejected_in_synchronous_mode_only() {
        let sync = Mode::Sync { grads_to_wait: NonZeroU32::MIN, tolerance: 2 };
        assert!(sync.takes(5, 7) && sync.takes(9, 7) && !sync.takes(4, 7) && !sync.takes(i32::MIN, i32::MAX));
        assert!(Mode::Async { modulates_rate: false }.takes(-100, 7));
    }

    #[test]
    fn the_rate_is_divided_by_the_updates_between() {
        let modulated = Mode::Async { modulates_rate: true };
        assert_eq!(
            [(7, 7), (6, 7), (5, 7), (9, 7)].map(|(g, s)| modulated.rate(0.0, 0.5, g, s)),
            [0.5, 0.5, 0.25, 0.5]
        );
        assert_eq!(modulated.rate(0.8, 0.5, 3, 7), 0.2);
        assert_eq!(Mode::Async { modulates_rate: false }.rate(0.0, 0.5, 3, 7), 0.5);
    }
}
