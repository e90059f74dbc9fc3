//! Waits for a condition, and checks whether a process is alive.

use std::fs;
use std::time::{Duration, Instant};

/// Far longer than any step takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Polls `condition` until it returns a result.
pub(crate) fn await_condition<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(result) = condition() {
            return result;
        }
        assert!(Instant::now() < until, "waited for {what}, in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is alive; a zombie is not.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
