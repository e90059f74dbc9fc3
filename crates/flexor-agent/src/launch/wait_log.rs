//! Log lines of a node that waits: one after a few seconds, another when it waits for something else, but never often.

use std::time::Duration;

use tokio::time::Instant;

/// A wait that is shorter is not logged.
const FIRST_AFTER: Duration = Duration::from_secs(3);
/// The shortest time between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// The log of one wait.
#[derive(Debug)]
pub(super) struct WaitLog {
    due: Instant,
    last: Option<String>,
}

impl WaitLog {
    /// The wait starts now.
    pub(super) fn start() -> Self {
        Self { due: Instant::now() + FIRST_AFTER, last: None }
    }

    /// When to call [`WaitLog::log`].
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Logs what the node waits for, unless the last line said the same.
    pub(super) fn log(&mut self, awaited: String) {
        self.due = Instant::now() + INTERVAL;
        if self.last.as_ref() != Some(&awaited) {
            tracing::info!("waits for {awaited}");
            self.last = Some(awaited);
        }
    }
}
