//! How far long work is, on standard error: a line that changes on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a terminal is told, and anything else.
const ON_TERMINAL: Duration = Duration::from_millis(200);
const ELSEWHERE: Duration = Duration::from_secs(10);

/// Tells how far something is.
pub struct Progress {
    doing: &'static str,
    records: u64,
    began: Instant,
    told: Instant,
    is_terminal: bool,
    has_told: bool,
}

impl Progress {
    /// Something that is done with so many records.
    pub fn new(doing: &'static str, records: u64) -> Self {
        let now = Instant::now();
        let is_terminal = io::stderr().is_terminal();
        Self { doing, records, began: now, told: now, is_terminal, has_told: false }
    }

    /// So many are done.
    pub fn at(&mut self, done: u64) {
        let pause = if self.is_terminal { ON_TERMINAL } else { ELSEWHERE };
        if self.told.elapsed() < pause {
            return;
        }
        self.told = Instant::now();
        self.has_told = true;
        let Self { doing, records, .. } = self;
        let share = 100.0 * done as f64 / (*records).max(1) as f64;
        let rate = done as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        let line = format!("{doing}: {done} of {records} records, {share:.0} %, {rate:.0}/s");
        let mut err = io::stderr().lock();
        let _ = if self.is_terminal { write!(err, "\r{line}\x1b[K") } else { writeln!(err, "{line}") };
        let _ = err.flush();
    }
}

impl Drop for Progress {
    /// Leaves the line to whoever writes next.
    fn drop(&mut self) {
        if self.has_told && self.is_terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
