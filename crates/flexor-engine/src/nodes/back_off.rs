//! How long a node waits that ends again and again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A wait that doubles with every short run and is forgotten after a good one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackOff {
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// A run of at least this length is a good one.
    pub good_run: Duration,
}

impl Default for BackOff {
    /// A second, doubled up to five minutes, and forgotten after a minute of training.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_secs(300), good_run: Duration::from_secs(60) }
    }
}

impl BackOff {
    /// How many short runs in a row there are once a run of this length has ended.
    pub fn short_runs(&self, before: u32, ran: Duration) -> u32 {
        if ran >= self.good_run { 0 } else { before.saturating_add(1) }
    }

    /// The wait of this step: none for step 0, the first for step 1, then doubled.
    pub fn wait(&self, step: u32) -> Duration {
        let Some(doublings) = step.checked_sub(1) else { return Duration::ZERO };
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_and_is_bounded() {
        let back_off = BackOff::default();
        let waits: Vec<u64> = [0, 1, 2, 3, 9, 10, 33, u32::MAX].map(|step| back_off.wait(step).as_secs()).to_vec();
        assert_eq!(waits, [0, 1, 2, 4, 256, 300, 300, 300]);
    }

    #[test]
    fn a_good_run_makes_earlier_short_ones_forgotten() {
        let back_off = BackOff::default();
        assert_eq!(back_off.short_runs(4, Duration::from_secs(59)), 5);
        assert_eq!(back_off.short_runs(4, Duration::from_secs(60)), 0);
    }
}
