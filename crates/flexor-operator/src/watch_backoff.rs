//! How long a broken watch waits before it is opened again.
//!
//! The library's own back-off goes up to half a minute, in which a lost pod would not be replaced.

use std::time::Duration;

use kube::runtime::utils::Backoff;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);

/// Doubles with every failure in a row.
#[derive(Debug, Default)]
pub(crate) struct WatchBackoff {
    failures: u32,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = FIRST.saturating_mul(1 << self.failures.min(8)).min(LONGEST);
        self.failures += 1;
        Some(wait)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_begin_anew_after_a_success() {
        let mut backoff = WatchBackoff::default();
        let waits: Vec<u128> = backoff.by_ref().take(7).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next(), Some(FIRST));
    }
}
