//! The configuration of an ElasticDL server.

use std::num::NonZeroU32;

use crate::spec::Optimizer;

/// All servers of a job have the same options.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    pub optimizer: Optimizer,
    pub mode: Mode,
    /// The seed of initial values of rows.
    pub seed: u64,
}

/// Asynchronous or synchronous training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each push is applied on arrival.
    Async {
        /// Divide the learning rate by the number of updates since the worker's pull.
        modulates_rate: bool,
    },
    /// Several pushes are applied together as one update.
    Sync {
        grads_to_wait: NonZeroU32,
        /// The most updates that gradients may lag behind. Staler ones are rejected.
        tolerance: u32,
    },
}

impl Mode {
    /// Whether gradients computed on version `gradients` may be applied at version `server`.
    pub(super) fn accepts(self, gradients: i32, server: i32) -> bool {
        match self {
            Self::Async { .. } => true,
            Self::Sync { tolerance, .. } => staleness(gradients, server) <= u64::from(tolerance),
        }
    }

    /// The learning rate of a push: the requested one if above 0, else the configured one.
    pub(super) fn rate(self, requested: f32, configured: f32, gradients: i32, server: i32) -> f32 {
        let rate = if requested > 0.0 { requested } else { configured };
        match self {
            Self::Async { modulates_rate: true } => rate / staleness(gradients, server).max(1) as f32,
            Self::Async { modulates_rate: false } | Self::Sync { .. } => rate,
        }
    }
}

/// Updates since the gradients were computed.
fn staleness(gradients: i32, server: i32) -> u64 {
    u64::try_from(i64::from(server) - i64::from(gradients)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_gradients_are_rejected_in_synchronous_mode_only() {
        let sync = Mode::Sync { grads_to_wait: NonZeroU32::MIN, tolerance: 2 };
        assert!(sync.accepts(5, 7) && sync.accepts(9, 7) && !sync.accepts(4, 7) && !sync.accepts(i32::MIN, i32::MAX));
        assert!(Mode::Async { modulates_rate: false }.accepts(-100, 7));
    }

    #[test]
    fn staleness_divides_the_learning_rate_if_modulated() {
        let modulated = Mode::Async { modulates_rate: true };
        assert_eq!(
            [(7, 7), (6, 7), (5, 7), (9, 7)].map(|(g, s)| modulated.rate(0.0, 0.5, g, s)),
            [0.5, 0.5, 0.25, 0.5]
        );
        assert_eq!(modulated.rate(0.8, 0.5, 3, 7), 0.2);
        assert_eq!(Mode::Async { modulates_rate: false }.rate(0.0, 0.5, 3, 7), 0.5);
    }
}
