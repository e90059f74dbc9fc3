//! The pace of a loop that keeps one connection: wait, connect, run until it breaks, and again.
//!
//! The loop owns its connection and decides when to give up; this module owns the delays. A typical loop:
//!
//! ```text
//! let mut reconnect = Reconnect::default();
//! loop {
//!     reconnect.next_attempt().await;
//!     if let Ok(connection) = connect().await {
//!         reconnect.established();
//!         run(connection).await;
//!     }
//! }
//! ```

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::{Backoff, Jitter};

/// How often a loop reports an outage that goes on.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// The delays between the attempts of one loop.
#[derive(Debug)]
pub struct Reconnect {
    backoff: Backoff,
    /// The delay before the latest attempt; none before the first one.
    last_delay: Option<Duration>,
    /// Since when the connection of the latest attempt works.
    established_at: Option<Instant>,
    /// When the outage began: at the first attempt, or when the last connection broke.
    down_since: Instant,
    last_report: Instant,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self::new(Jitter::Random)
    }
}

impl Reconnect {
    /// The first attempt is due at once.
    pub fn new(jitter: Jitter) -> Self {
        let now = Instant::now();
        let backoff = Backoff::new(jitter);
        Self { backoff, last_delay: None, established_at: None, down_since: now, last_report: now }
    }

    /// Waits until the next attempt is due.
    ///
    /// A connection that lasted at least as long as the delay before it resets the back-off. A shorter one does not:
    /// the other end may accept connections and drop them again, for instance while it crash-loops.
    pub async fn next_attempt(&mut self) {
        let Some(last_delay) = self.last_delay else {
            self.last_delay = Some(Duration::ZERO);
            return;
        };
        if let Some(established_at) = self.established_at.take() {
            let now = Instant::now();
            (self.down_since, self.last_report) = (now, now);
            if now.duration_since(established_at) >= last_delay {
                self.backoff.reset();
            }
        }
        let delay = self.backoff.next_delay();
        self.last_delay = Some(delay);
        tokio::time::sleep(delay).await;
    }

    /// The connection works. Only the first call after an attempt counts.
    pub fn established(&mut self) {
        self.established_at.get_or_insert_with(Instant::now);
    }

    /// How long the outage has lasted: every five seconds of it, for the log.
    pub fn outage_to_report(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let is_due = self.established_at.is_none() && now.duration_since(self.last_report) >= REPORT_EVERY;
        is_due.then(|| {
            self.last_report = now;
            now.duration_since(self.down_since)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long the next attempt is waited for.
    async fn delay(reconnect: &mut Reconnect) -> Duration {
        let begun = Instant::now();
        reconnect.next_attempt().await;
        begun.elapsed()
    }

    const SHORTEST: Duration = Duration::from_millis(51);

    #[tokio::test(start_paused = true)]
    async fn the_first_attempt_is_due_at_once_and_delays_grow_after_failures() {
        let mut reconnect = Reconnect::new(Jitter::Seeded(1));
        assert_eq!(delay(&mut reconnect).await, Duration::ZERO);
        assert!(delay(&mut reconnect).await <= SHORTEST);
        for _ in 0..8 {
            delay(&mut reconnect).await;
        }
        assert!(delay(&mut reconnect).await >= Duration::from_millis(500));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_connection_that_lasted_resets_the_delay() {
        let mut reconnect = Reconnect::new(Jitter::Seeded(1));
        for _ in 0..12 {
            reconnect.next_attempt().await;
            reconnect.established();
        }
        assert!(delay(&mut reconnect).await >= Duration::from_millis(500), "connections broke at once");
        reconnect.established();
        tokio::time::sleep(Duration::from_secs(2)).await;
        // Later signs of life do not make the connection younger.
        reconnect.established();
        assert!(delay(&mut reconnect).await <= SHORTEST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_outage_is_reported_every_five_seconds() {
        let mut reconnect = Reconnect::new(Jitter::Seeded(1));
        let mut reports = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(18) {
            reconnect.next_attempt().await;
            reports.extend(reconnect.outage_to_report());
        }
        assert_eq!(reports.len(), 3, "{reports:?}");
        reconnect.established();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(reconnect.outage_to_report(), None, "the connection works");
        reconnect.next_attempt().await;
        assert_eq!(reconnect.outage_to_report(), None, "the outage has just begun");
    }
}
