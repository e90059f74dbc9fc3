//! A clock that does not count the owner's absences.
//!
//! A process that was stopped, or whose machine slept, received no messages meanwhile. The clock stands still for that
//! time, so no peer times out because of it.

use std::time::Duration;

/// A longer gap between two calls is an absence. Owners tick at least every second.
const ABSENCE: Duration = Duration::from_secs(3);

/// The owner's time without its absences. State machines wait by this clock alone; [`ActiveClock::owner_time_at`]
/// converts its instants to the owner's.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveClock {
    /// The owner's time at the last call; `None` before the first.
    owner_time: Option<Duration>,
    /// Never later than `owner_time`.
    time: Duration,
}

impl ActiveClock {
    /// A clock that starts at the owner's time.
    pub(crate) fn since(now: Duration) -> Self {
        Self { owner_time: Some(now), time: now }
    }

    pub(crate) fn now(&self) -> Duration {
        self.time
    }

    /// Advances the clock. It stands still for an absence, and when the owner's time runs backwards.
    pub(crate) fn advance(&mut self, now: Duration) {
        // The first call starts the clock.
        let Some(owner_time) = self.owner_time else { return *self = Self::since(now) };
        let gap = now.saturating_sub(owner_time);
        if gap <= ABSENCE {
            self.time += gap;
        }
        self.owner_time = Some(owner_time.max(now));
    }

    /// The owner's time when this clock reaches `moment`, unless the owner is absent before.
    pub(crate) fn owner_time_at(&self, moment: Duration) -> Duration {
        self.owner_time.unwrap_or_default().saturating_add(moment.saturating_sub(self.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_for_a_leap_forward_and_for_one_backwards() {
        let seconds = Duration::from_secs;
        let mut clock = ActiveClock::default();
        let mut at = |owner_time: u64| {
            clock.advance(seconds(owner_time));
            clock.now().as_secs()
        };
        assert_eq!(at(1_000), 1_000, "the time begins");
        assert_eq!(at(1_003), 1_003);
        assert_eq!(at(900), 1_003);
        assert_eq!(at(1_004), 1_004, "it goes on where it was");
        assert_eq!(at(1_008), 1_004, "the owner was absent");
        assert_eq!(at(1_010), 1_006);
        assert_eq!(clock.owner_time_at(seconds(1_016)), seconds(1_020));
        assert_eq!(clock.owner_time_at(Duration::MAX), Duration::MAX);
    }
}
