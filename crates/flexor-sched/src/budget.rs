//! How many pods may change hands for the sake of equal fulfilment.
//!
//! Every swap ends a pod that works. A fifth of the surplus per minute keeps that loss small and still gives a new job
//! its share within minutes.

use std::time::Duration;

/// The part of the surplus that changes hands per minute: one in so many.
const ONE_IN: u64 = 5;
/// The most swaps that can be saved up.
const MOST: u64 = 30;

/// Swaps that are allowed, filled by time and spent by plans. A new one is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwapBudget {
    /// In 60,000ths of a fifth of a pod, so that every millisecond counts exactly.
    parts: u64,
}

impl SwapBudget {
    const PARTS_PER_SWAP: u64 = 60_000 * ONE_IN;

    /// Adds the share of the time that passed while there was so much surplus.
    pub fn accrue(&mut self, surplus: u32, elapsed: Duration) {
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let earned = u64::from(surplus).saturating_mul(millis);
        self.parts = self.parts.saturating_add(earned).min(MOST * Self::PARTS_PER_SWAP);
    }

    /// The whole swaps that a plan may make.
    pub fn available(&self) -> u32 {
        u32::try_from(self.parts / Self::PARTS_PER_SWAP).unwrap_or(u32::MAX)
    }

    /// Takes off the swaps that a plan has made.
    pub fn spend(&mut self, swaps: u32) {
        self.parts = self.parts.saturating_sub(u64::from(swaps) * Self::PARTS_PER_SWAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_surplus_per_minute_and_at_most_thirty() {
        let mut budget = SwapBudget::default();
        budget.accrue(50, Duration::from_secs(60));
        assert_eq!(budget.available(), 10);
        budget.spend(4);
        assert_eq!(budget.available(), 6);
        budget.accrue(10_000, Duration::from_secs(3600));
        assert_eq!(budget.available(), 30);
    }

    #[test]
    fn short_times_add_up_exactly() {
        let mut budget = SwapBudget::default();
        (0..1000).for_each(|_| budget.accrue(1, Duration::from_millis(300)));
        assert_eq!(budget.available(), 1);
    }
}
