//! Exponential back-off with jitter: how long to wait before something is tried again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// Delays that grow by half each time, from 50 ms to 1 s. Jitter shortens each delay by up to half, so that the
/// processes of a large job do not reconnect all at once.
///
/// The slow growth bounds what back-off adds to an outage: on average the process reconnects a quarter of the outage's
/// length after the master is back, and never more than a second after it.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
    /// State of SplitMix64.
    state: u64,
}

/// Where the jitter of a [`Backoff`] comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// Differs between processes and between calls.
    #[default]
    Random,
    /// The same delays for the same seed. Simulations use it: one seed of theirs is one history.
    Seeded(u64),
}

impl Jitter {
    /// Jitter that is fixed for a name and differs between names.
    pub fn of_name(name: &str) -> Self {
        // FNV-1a: unlike the standard library's hash it stays the same in every version.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self::Seeded(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    fn seed(self) -> u64 {
        match self {
            Self::Random => RandomState::new().hash_one(()),
            Self::Seeded(seed) => seed,
        }
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Jitter::Random)
    }
}

impl Backoff {
    /// Starts with the shortest delay.
    pub fn new(jitter: Jitter) -> Self {
        Self { next: FIRST, state: jitter.seed() }
    }

    /// The delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let longest = self.next;
        self.next = LONGEST.min(longest * 3 / 2);
        let share = self.random() % 512;
        longest / 2 + longest / 1024 * u32::try_from(share).unwrap_or_default()
    }

    /// An attempt succeeded: the next delay is the shortest again.
    pub fn reset(&mut self) {
        self.next = FIRST;
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_second_and_start_small_again() {
        let mut backoff = Backoff::default();
        for longest in [50, 75, 112, 168, 253, 379, 569, 854, 1000, 1000] {
            let delay = backoff.next_delay().as_millis();
            assert!((longest / 2..=longest).contains(&delay), "{delay} of {longest}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= FIRST);
    }

    #[test]
    fn one_seed_gives_the_same_delays_every_time() {
        let delays = |jitter| -> Vec<Duration> {
            let mut backoff = Backoff::new(jitter);
            (0..8).map(|_| backoff.next_delay()).collect()
        };
        assert_eq!(delays(Jitter::of_name("worker-0")), delays(Jitter::of_name("worker-0")));
        assert_ne!(delays(Jitter::of_name("worker-0")), delays(Jitter::of_name("worker-1")));
        assert_ne!(delays(Jitter::Random), delays(Jitter::Random));
    }
}
