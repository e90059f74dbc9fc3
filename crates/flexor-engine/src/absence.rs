//! The time, as a machine's owner tells it. An absence of the owner is nobody's fault: one that was stopped, or whose
//! machine slept, has heard nobody meanwhile. So a machine's clock stands still for it, and whoever is waited for has as
//! long as ever.

use std::time::Duration;

/// How far apart two calls may be before the owner counts as having been away. Owners tick at least every second.
const ABSENCE: Duration = Duration::from_secs(3);

/// The owner's time without its absences. A machine waits by this clock alone: its moments are not the owner's, which
/// [`Attended::told_at`] gives where one is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attended {
    /// What the owner told last; nothing before the first call.
    told: Option<Duration>,
    /// Never later than that.
    time: Duration,
}

impl Attended {
    /// A clock that begins with the owner's time.
    pub(crate) fn since(now: Duration) -> Self {
        Self { told: Some(now), time: now }
    }

    /// The time.
    pub(crate) fn now(&self) -> Duration {
        self.time
    }

    /// Moves the time on. For an absence it stands still, and so it does when the owner's runs backwards.
    pub(crate) fn advance(&mut self, now: Duration) {
        // The first call of all begins the time.
        let Some(told) = self.told else { return *self = Self::since(now) };
        let gap = now.saturating_sub(told);
        if gap <= ABSENCE {
            self.time += gap;
        }
        self.told = Some(told.max(now));
    }

    /// When it is this time for the owner, if it stays.
    pub(crate) fn told_at(&self, moment: Duration) -> Duration {
        self.told.unwrap_or_default().saturating_add(moment.saturating_sub(self.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stands_still_for_a_leap_forward_and_for_one_backwards() {
        let seconds = Duration::from_secs;
        let mut clock = Attended::default();
        let mut at = |told: u64| {
            clock.advance(seconds(told));
            clock.now().as_secs()
        };
        assert_eq!(at(1_000), 1_000, "the time begins");
        assert_eq!(at(1_003), 1_003);
        assert_eq!(at(900), 1_003);
        assert_eq!(at(1_004), 1_004, "it goes on where it was");
        assert_eq!(at(1_008), 1_004, "nobody was there");
        assert_eq!(at(1_010), 1_006);
        assert_eq!(clock.told_at(seconds(1_016)), seconds(1_020));
        assert_eq!(clock.told_at(Duration::MAX), Duration::MAX);
    }
}
