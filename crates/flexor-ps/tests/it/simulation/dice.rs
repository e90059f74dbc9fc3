//! A seeded random number generator (SplitMix64).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Deterministic random numbers. Clones share one state.
#[derive(Clone)]
pub(crate) struct Dice(Arc<Mutex<u64>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    pub(crate) fn roll(&self, sides: u64) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }

    /// True with probability 1 / `times`.
    pub(crate) fn once_in(&self, times: u64) -> bool {
        self.roll(times) == 0
    }

    /// A duration below `most`.
    pub(crate) fn within(&self, most: Duration) -> Duration {
        Duration::from_micros(self.roll(most.as_micros() as u64))
    }

    /// A random element; `None` of an empty slice.
    pub(crate) fn pick<T: Clone>(&self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { of.get(self.roll(of.len() as u64) as usize).cloned() }
    }

    /// An independent generator, so that one party's draws do not affect another's.
    pub(crate) fn split(&self) -> Self {
        Self::new(self.roll(u64::MAX))
    }
}
