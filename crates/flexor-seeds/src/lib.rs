//! The seeds of random tests.
//!
//! `FLEXOR_SEED` chooses one. Every random test takes its seeds from here and prints the line that replays a failure. Tests
//! with proptest take `PROPTEST_RNG_SEED`, which `cargo xtask test` sets to the same number.

use std::env;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use flexor_model::env::SEED;

/// Plays every seed of a range, or only that of `FLEXOR_SEED`. If one fails, prints the line that replays it.
pub fn each(seeds: Range<u64>, mut play: impl FnMut(u64)) {
    for seed in range(seeds) {
        let _replay = Replay(seed);
        play(seed);
    }
}

/// The seeds of a range, or only that of `FLEXOR_SEED`. The caller prints [`replay_line`] if one fails.
pub fn range(seeds: Range<u64>) -> Range<u64> {
    match chosen() {
        Some(seed) => seed..seed.saturating_add(1),
        None => seeds,
    }
}

/// The seed of a test that has this one, or that of `FLEXOR_SEED`. Prints the line that replays it.
pub fn or(usual: u64) -> u64 {
    let seed = chosen().unwrap_or(usual);
    println!("{}", replay_line(seed));
    seed
}

/// Another seed each time, or that of `FLEXOR_SEED`. Prints the line that replays it.
pub fn fresh() -> u64 {
    or(RandomState::new().hash_one(()))
}

/// The seed that the user has chosen.
///
/// # Panics
///
/// `FLEXOR_SEED` is no number.
pub fn chosen() -> Option<u64> {
    let text = env::var(SEED.name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{} is {text:?}: write a number from 0 to {}", SEED.name, u64::MAX)))
}

/// The line that replays a seed of the calling test.
pub fn replay_line(seed: u64) -> String {
    // The test harness names the thread of a test after it.
    let thread = std::thread::current();
    ReplayLine { seed, test: thread.name().filter(|name| name.contains("::")) }.to_string()
}

struct ReplayLine<'a> {
    seed: u64,
    test: Option<&'a str>,
}

impl fmt::Display for ReplayLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "again: {}={} cargo test --workspace", SEED.name, self.seed)?;
        match self.test {
            Some(test) => write!(f, " -- --exact {test}"),
            None => Ok(()),
        }
    }
}

/// Prints the line of a seed whose test panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", replay_line(self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_seed_is_the_last_that_was_played() {
        let mut played = Vec::new();
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            each(3..9, |seed| {
                played.push(seed);
                assert_ne!(seed, 5, "as intended");
            });
        }));
        match chosen() {
            None => assert_eq!((failed.is_err(), played), (true, vec![3, 4, 5])),
            Some(seed) => assert_eq!((failed.is_err(), played), (seed == 5, vec![seed])),
        }
    }

    #[test]
    fn the_line_names_the_seed_and_the_test() {
        let line = ReplayLine { seed: 7, test: Some("tests::this") }.to_string();
        assert_eq!(line, "again: FLEXOR_SEED=7 cargo test --workspace -- --exact tests::this");
        assert_eq!(ReplayLine { seed: 7, test: None }.to_string(), "again: FLEXOR_SEED=7 cargo test --workspace");
        assert!(replay_line(1).ends_with("--exact tests::the_line_names_the_seed_and_the_test"), "{}", replay_line(1));
    }
}
