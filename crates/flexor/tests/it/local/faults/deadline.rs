//! Polls for changes in other processes, with a deadline and a description for the error.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take that is not measured. A machine under load is slow, not wrong.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The value that `look` finds, as soon as it does. `what` completes the sentence "waited for …".
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_or_explain(what, look, String::new)
}

/// The value that `look` finds, as soon as it does; after the deadline the error contains `explain`'s text.
pub fn eventually_or_explain<T>(
    what: &str,
    mut look: impl FnMut() -> Option<T>,
    explain: impl FnOnce() -> String,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        if Instant::now() >= deadline {
            panic!("waited {PATIENCE:?} for {what}; {}", explain());
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Repeats `check` for this long; it must never fail.
pub fn throughout(time: Duration, mut check: impl FnMut()) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        check();
        thread::sleep(POLL_INTERVAL);
    }
}
