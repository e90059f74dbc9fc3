//! The back-off before the pod of a replica slot is created again, as in CrashLoopBackOff.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A wait that doubles with every short run, until a run of at least `good_run` resets it. Part of a job's rules; its
/// field names are a stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackOff {
    /// The first wait.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// A run of at least this length is a good one.
    pub good_run: Duration,
    /// A pod that is lost within this time of its start is replaced with a wait, from the second such loss in a row.
    pub lost_soon: Duration,
    /// The longest wait after a loss to the infrastructure: eviction, preemption, a failed node.
    pub longest_of_lost: Duration,
}

impl Default for BackOff {
    /// A second, doubled up to five minutes, and reset by a run of a minute. A lost pod is replaced at once, or within ten
    /// seconds if it and the one before ran for less than two seconds.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(300),
            good_run: Duration::from_secs(60),
            lost_soon: Duration::from_secs(2),
            longest_of_lost: Duration::from_secs(10),
        }
    }
}

impl BackOff {
    /// How many short runs in a row there are after a run of this length.
    pub fn short_runs(&self, before: u32, ran: Duration) -> u32 {
        if ran >= self.good_run { 0 } else { before.saturating_add(1) }
    }

    /// The wait after so many short runs in a row: none for 0, the first for 1, then doubled.
    pub fn wait(&self, short_runs: u32) -> Duration {
        let Some(doublings) = short_runs.checked_sub(1) else { return Duration::ZERO };
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// The wait before a lost pod is replaced that ran for this long, the last of so many short runs in a row.
    pub fn wait_of_lost(&self, short_runs: u32, ran: Duration) -> Duration {
        if ran >= self.lost_soon {
            return Duration::ZERO;
        }
        // The first loss in a row is replaced at once.
        self.wait(short_runs.saturating_sub(1)).min(self.longest_of_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pod_that_is_lost_as_soon_as_it_starts_backs_off_and_not_for_long() {
        let back_off = BackOff::default();
        let (soon, later) = (Duration::from_millis(100), Duration::from_secs(2));
        let waits = [1, 2, 3, 5, 9].map(|short_runs| back_off.wait_of_lost(short_runs, soon).as_secs());
        assert_eq!(waits, [0, 1, 2, 8, 10]);
        assert_eq!(back_off.wait_of_lost(9, later), Duration::ZERO);
    }

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
