//! Waits for what shows only to a test that looks again, such as the output of kubectl.

use std::time::{Duration, Instant};

/// Pods with containers start slowly on a busy machine.
const DEADLINE: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Repeats a look until it is as wanted.
pub fn eventually<T>(what: &str, explain: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < DEADLINE, "waited for {what}: {}", explain());
        std::thread::sleep(LOOK_EVERY);
    }
}
