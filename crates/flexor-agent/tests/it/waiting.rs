//! Waiting for what processes do, and looking at whether they live.

use std::fs;
use std::time::{Duration, Instant};

/// Far more than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The result of `look`, as soon as it has one.
pub(crate) fn await_condition<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited for {what}, in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process lives; one that is dead and not waited for does not.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
