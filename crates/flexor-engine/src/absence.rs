//! The time, as a machine's owner tells it. An absence of the owner is nobody's fault: one that was stopped, or whose
//! machine slept, has heard nobody meanwhile, so that whoever is waited for gets that time on top.

use std::time::Duration;

/// How far apart two calls may be before the owner counts as having been away. Owners tick at least every second.
const ABSENCE: Duration = Duration::from_secs(3);

/// Moves a machine's time on; time that runs backwards stands still. How long the owner was away, if it was: everything
/// that is waited for waits that much longer.
pub(crate) fn advance(time: &mut Duration, now: Duration) -> Option<Duration> {
    let before = std::mem::replace(time, now.max(*time));
    let gap = time.saturating_sub(before);
    // The first call of all begins the time.
    (gap > ABSENCE && before > Duration::ZERO).then_some(gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leap_forward_is_an_absence_and_one_backwards_is_nothing() {
        let seconds = Duration::from_secs;
        let mut time = Duration::ZERO;
        assert_eq!(advance(&mut time, seconds(1_000)), None, "the time begins");
        assert_eq!(advance(&mut time, seconds(1_003)), None);
        assert_eq!(advance(&mut time, seconds(900)), None);
        assert_eq!(time, seconds(1_003));
        assert_eq!(advance(&mut time, seconds(1_007)), Some(seconds(4)));
        assert_eq!(time, seconds(1_007));
    }
}
