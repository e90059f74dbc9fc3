//! How long to wait before the master is dialled again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that double from 50 ms to 1 s, each cut by up to half at random, so that the sidecars of a large job do not
/// come back all at once.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    /// Begins with the shortest.
    fn default() -> Backoff {
        Backoff { next: FIRST }
    }
}

impl Backoff {
    /// The next pause.
    pub fn pause(&mut self) -> Duration {
        let longest = self.next;
        self.next = LONGEST.min(longest * 2);
        let share = random_number() % 512;
        longest / 2 + longest / 1024 * u32::try_from(share).unwrap_or_default()
    }

    /// It worked; the next failure is a new one.
    pub fn reset(&mut self) {
        self.next = FIRST;
    }
}

/// A number that differs between processes and calls; nothing secret.
pub(super) fn random_number() -> u64 {
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second_and_start_small_again() {
        let mut backoff = Backoff::default();
        for longest in [50, 100, 200, 400, 800, 1000, 1000] {
            let pause = backoff.pause().as_millis();
            assert!((longest / 2..=longest).contains(&pause), "{pause} of {longest}");
        }
        backoff.reset();
        assert!(backoff.pause() <= FIRST);
    }
}
