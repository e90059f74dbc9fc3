//! Progress of long data commands on standard error: an updated line on a terminal, occasional lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two lines.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const PIPE_INTERVAL: Duration = Duration::from_secs(10);

/// Prints the progress of one command.
pub struct RecordProgress {
    /// Participle that names the work, such as `converted`.
    verb: &'static str,
    records: u64,
    began: Instant,
    printed_at: Instant,
    is_terminal: bool,
    has_printed: bool,
}

impl RecordProgress {
    /// `records` is the number of records that the work ends with.
    pub fn new(verb: &'static str, records: u64) -> Self {
        let now = Instant::now();
        let is_terminal = io::stderr().is_terminal();
        Self { verb, records, began: now, printed_at: now, is_terminal, has_printed: false }
    }

    /// Prints a line if one is due.
    pub fn update(&mut self, done: u64) {
        let interval = if self.is_terminal { TERMINAL_INTERVAL } else { PIPE_INTERVAL };
        if self.printed_at.elapsed() < interval {
            return;
        }
        self.printed_at = Instant::now();
        self.has_printed = true;
        let Self { verb, records, .. } = self;
        let share = 100.0 * done as f64 / (*records).max(1) as f64;
        let rate = done as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        let line = format!("{verb}: {done} of {records} records, {share:.0} %, {rate:.0}/s");
        let mut err = io::stderr().lock();
        let _ = if self.is_terminal { write!(err, "\r{line}\x1b[K") } else { writeln!(err, "{line}") };
        let _ = err.flush();
    }
}

impl Drop for RecordProgress {
    /// Clears the line for the next output.
    fn drop(&mut self) {
        if self.has_printed && self.is_terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
