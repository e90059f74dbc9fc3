//! What a node that waits tells of it: soon, and again when it waits for something else, but never often.

use std::time::Duration;

use tokio::time::Instant;

/// Who waits so long says so.
const SILENCE: Duration = Duration::from_secs(3);
/// How long it says nothing more.
const APART: Duration = Duration::from_secs(10);

/// The words of one wait.
#[derive(Debug)]
pub(super) struct Words {
    due: Instant,
    last: Option<String>,
}

impl Words {
    /// The wait begins.
    pub(super) fn begin() -> Self {
        Self { due: Instant::now() + SILENCE, last: None }
    }

    /// When to [`Words::say`] something.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Says what is waited for, if that was not said last.
    pub(super) fn say(&mut self, what: String) {
        self.due = Instant::now() + APART;
        if self.last.as_ref() != Some(&what) {
            tracing::info!("waits for {what}");
            self.last = Some(what);
        }
    }
}
