//! The only module of this crate that reads a clock.
//!
//! Decisions take `now` as an argument; their drivers read a [`Clock`]. Injected faults make it jump: the wall clock
//! both ways, as when it is set, and the monotonic clock forwards only, as after a suspend. The runtime's timers do not
//! jump.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

// The standard library's instant, except where a test has paused the time.
use tokio::time::Instant;

use crate::faults::Faults;

/// Microseconds since 1970, UTC. For people and other machines; never for measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMicros(pub u64);

/// A monotonic clock that starts at zero, and the wall clock. Clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    faults: Faults,
    jumps: Mutex<Jumps>,
}

/// How far faults have moved the monotonic clock.
#[derive(Debug, Default)]
struct Jumps {
    /// The offset at the last reading.
    seen_ms: i64,
    /// The sum of all forward jumps.
    forward: Duration,
}

impl Clock {
    #[must_use]
    pub fn start(faults: Faults) -> Self {
        let jumps = Mutex::new(Jumps { seen_ms: faults.active().clock_offset_ms, forward: Duration::ZERO });
        Self(Arc::new(Inner { start: Instant::now(), faults, jumps }))
    }

    #[must_use]
    pub fn now(&self) -> Duration {
        let inner = &self.0;
        if !inner.faults.are_possible() {
            return inner.start.elapsed();
        }
        let mut jumps = inner.jumps.lock().unwrap_or_else(PoisonError::into_inner);
        let offset_ms = inner.faults.active().clock_offset_ms;
        if let Ok(jump) = u64::try_from(offset_ms.saturating_sub(jumps.seen_ms)) {
            jumps.forward = jumps.forward.saturating_add(Duration::from_millis(jump));
        }
        jumps.seen_ms = offset_ms;
        inner.start.elapsed().saturating_add(jumps.forward)
    }

    #[must_use]
    pub fn wall(&self) -> UnixMicros {
        let true_time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let true_micros = u64::try_from(true_time.as_micros()).unwrap_or(u64::MAX);
        let offset_ms = self.0.faults.active().clock_offset_ms;
        UnixMicros(true_micros.saturating_add_signed(offset_ms.saturating_mul(1000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::ActiveFaults;

    const HOUR: Duration = Duration::from_secs(3600);

    fn set_offset(faults: &Faults, offset_ms: i64) {
        faults.set(ActiveFaults { clock_offset_ms: offset_ms, ..ActiveFaults::default() });
    }

    #[test]
    fn a_jump_forward_moves_both_clocks() {
        let faults = Faults::settable();
        let clock = Clock::start(faults.clone());
        let (now, wall) = (clock.now(), clock.wall());
        set_offset(&faults, 3_600_000);
        assert!(clock.now() - now >= HOUR && clock.now() - now < 2 * HOUR);
        assert!(clock.wall().0 - wall.0 >= 3_600_000_000);
    }

    #[test]
    fn a_jump_back_moves_the_wall_clock_only() {
        let faults = Faults::settable();
        let clock = Clock::start(faults.clone());
        set_offset(&faults, 3_600_000);
        let (now, wall) = (clock.now(), clock.wall());
        set_offset(&faults, -3_600_000);
        assert!(clock.now() >= now && clock.now() - now < HOUR);
        assert!(wall.0 - clock.wall().0 > 7_000_000_000);
    }

    #[test]
    fn an_absurd_offset_is_no_panic() {
        let faults = Faults::settable();
        let clock = Clock::start(faults.clone());
        let mut last = Duration::ZERO;
        for offset in [i64::MAX, i64::MIN, i64::MAX] {
            set_offset(&faults, offset);
            assert!(clock.now() >= last);
            assert_eq!(clock.wall() > UnixMicros(0), offset > 0);
            last = clock.now();
        }
    }
}
