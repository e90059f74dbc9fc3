//! Watches the output of a program for the reason of its failure: a Python traceback, or torchrun's line about a worker.
//!
//! The output passes through a pump, so every reason has the time at which it was printed. With that time the first
//! failure of a job is distinguished from those that followed from it, also across pods.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};

use super::super::exit::ExitOutcome;
use super::traceback::{Traceback, TracebackScanner};

/// Longer lines are cut, in bytes.
const MAX_LINE: usize = 4 << 10;
/// A failure with more lines after it did not end the program.
const MAX_LINES_AFTER: u64 = 200;
/// Tracebacks within this time belong to one failure of a launcher's workers.
const ONE_FAILURE: SignedDuration = SignedDuration::from_secs(10);
/// What torchrun logs when a worker has failed.
const OF_TORCHRUN: [&str; 3] = ["failed (exitcode: ", ") local_rank: ", " (pid: "];

/// Why a program failed, as far as its output tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedFailure {
    pub at: Timestamp,
    pub cause: PrintedCause,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrintedCause {
    Exception(Traceback),
    /// The end of a worker that torchrun reported and that printed no traceback.
    Worker {
        local_rank: u32,
        outcome: ExitOutcome,
    },
}

impl PrintedCause {
    /// On one line.
    pub fn summary(&self) -> String {
        match self {
            PrintedCause::Exception(traceback) => traceback.to_string(),
            PrintedCause::Worker { local_rank, outcome } => format!("{outcome} of local rank {local_rank}"),
        }
    }
}

/// The reader's end of a watch. Clones share what was seen.
#[derive(Debug, Clone, Default)]
pub struct FailureWatch {
    seen: Arc<Mutex<SeenOutput>>,
}

#[derive(Debug, Default)]
struct SeenOutput {
    partial: Vec<u8>,
    lines: u64,
    last_line: String,
    tracebacks: TracebackScanner,
    /// The first and the last exception of the latest failure.
    exceptions: Option<[SeenException; 2]>,
    /// The exception of a launcher.
    of_launcher: Option<PrintedFailure>,
    /// The failure of the last worker that torchrun reported.
    of_worker: Option<PrintedFailure>,
}

#[derive(Debug, Clone)]
struct SeenException {
    failure: PrintedFailure,
    line: u64,
}

impl FailureWatch {
    /// Takes the next bytes of the output, printed at this time.
    pub fn push(&self, bytes: &[u8], at: Timestamp) {
        self.seen().push(bytes, at);
    }

    /// Why the program failed, if its output tells.
    pub fn failure(&self) -> Option<PrintedFailure> {
        self.seen().failure()
    }

    /// The exception with which a launcher ended.
    pub fn of_launcher(&self) -> Option<PrintedFailure> {
        self.seen().of_launcher.clone()
    }

    /// The last line that was not empty.
    pub fn last_line(&self) -> Option<String> {
        Some(self.seen().last_line.clone()).filter(|line| !line.is_empty())
    }

    fn seen(&self) -> MutexGuard<'_, SeenOutput> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenOutput {
    fn push(&mut self, mut bytes: &[u8], at: Timestamp) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = mem::take(&mut self.partial);
            self.push_line(&String::from_utf8_lossy(&line), at);
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    fn push_line(&mut self, line: &str, at: Timestamp) {
        self.lines += 1;
        if !line.trim().is_empty() {
            self.last_line.clear();
            self.last_line.push_str(line.trim());
        }
        if let Some((local_rank, outcome)) = worker_of_torchrun(line) {
            let printed = self.exceptions.take().map(|[first, _]| first.failure);
            let cause = PrintedCause::Worker { local_rank, outcome };
            self.of_worker = Some(printed.unwrap_or(PrintedFailure { at, cause }));
        }
        let Some(traceback) = self.tracebacks.push_line(line) else { return };
        if traceback.is_requested() {
            return;
        }
        let (is_of_launcher, is_chained) = (traceback.is_of_launcher(), traceback.is_chained());
        let failure = PrintedFailure { at, cause: PrintedCause::Exception(traceback) };
        if is_of_launcher {
            self.of_launcher = Some(failure);
            return;
        }
        let seen = SeenException { failure, line: self.lines };
        let first = match self.exceptions.take() {
            Some([first, last]) if is_chained && first.line == last.line => seen.clone(),
            Some([first, last]) if is_chained || at.duration_since(last.failure.at) < ONE_FAILURE => first,
            Some(_) | None => seen.clone(),
        };
        self.exceptions = Some([first, seen]);
    }

    fn failure(&self) -> Option<PrintedFailure> {
        let is_launched = self.of_worker.is_some() || self.of_launcher.is_some();
        let recent = self.exceptions.as_ref().filter(|[_, last]| self.lines - last.line <= MAX_LINES_AFTER);
        // Workers of a launcher fail one after the other; a program by itself handles all exceptions but the last.
        let exception = recent.map(|[first, last]| if is_launched { first } else { last });
        exception.map(|seen| seen.failure.clone()).or_else(|| self.of_worker.clone())
    }
}

/// The worker in torchrun's line about a failure, and how it ended.
fn worker_of_torchrun(line: &str) -> Option<(u32, ExitOutcome)> {
    let [failed, local_rank, pid] = OF_TORCHRUN;
    let (code, rest) = line.split_once(failed)?.1.split_once(local_rank)?;
    let code: i32 = code.parse().ok()?;
    let outcome = if code < 0 { ExitOutcome::Signal(code.saturating_neg()) } else { ExitOutcome::Code(code) };
    Some((rest.split_once(pid)?.0.parse().ok()?, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exception(message: &str) -> String {
        format!("Traceback (most recent call last):\n  File \"/x/a.py\", line 3, in f\nValueError: {message}\n")
    }

    fn torchrun(code: i32) -> String {
        format!("E1118 04:00:01.5 7 torch/x/api.py:9] failed (exitcode: {code}) local_rank: 1 (pid: 8) of binary: p\n")
    }

    const CLOSED: &str = "Traceback (most recent call last):\n  File \
                          \"/e/lib/python3.11/site-packages/torch/distributed/run.py\", line 1, in main\n\
                          torch.RendezvousClosedError\n";

    fn watched(printed: &[(i64, &str)]) -> FailureWatch {
        let watch = FailureWatch::default();
        for (second, text) in printed {
            watch.push(text.as_bytes(), Timestamp::from_second(*second).unwrap());
        }
        watch
    }

    fn failure(printed: &[(i64, &str)]) -> (i64, String) {
        let failure = watched(printed).failure();
        failure.map_or((0, "none".to_owned()), |failure| (failure.at.as_second(), failure.cause.summary()))
    }

    fn value_error(message: &str) -> String {
        format!("ValueError: {message} (at /x/a.py:3 in f)")
    }

    #[test]
    fn of_a_plain_program_the_last_exception_counts() {
        let (handled, last) = (exception("handled"), exception("last"));
        assert_eq!(failure(&[(1, &handled), (2, &last), (3, "bye\n")]), (2, value_error("last")));
        let goes_on = "step\n".repeat(300);
        assert_eq!(failure(&[(1, &handled), (2, &goes_on)]), (0, "none".to_owned()), "the program went on");
        assert_eq!(failure(&[(1, "no reason\n")]), (0, "none".to_owned()));
    }

    #[test]
    fn of_workers_the_first_exception_of_the_last_failure_counts() {
        let failed = torchrun(1);
        let (a, b) = (exception("a"), exception("b"));
        assert_eq!(failure(&[(1, &a), (2, &b), (3, &failed)]), (1, value_error("a")));
        assert_eq!(failure(&[(1, &a), (3, &failed), (4, &b), (5, &failed), (6, CLOSED)]), (4, value_error("b")));
        assert_eq!(failure(&[(1, &a), (2, CLOSED)]), (1, value_error("a")));
    }

    #[test]
    fn a_worker_that_prints_no_exception_is_told_by_its_end() {
        let (code, signal, a) = (torchrun(3), torchrun(-9), exception("a"));
        assert_eq!(failure(&[(1, &code), (2, CLOSED)]), (1, "exit code 3 of local rank 1".to_owned()));
        assert_eq!(failure(&[(1, &a), (2, &code), (3, &signal)]), (3, "signal 9 (SIGKILL) of local rank 1".to_owned()));
    }

    #[test]
    fn the_exception_of_a_launcher_is_no_failure_of_the_program() {
        let watch = watched(&[(5, CLOSED)]);
        assert_eq!(watch.failure(), None);
        let own = watch.of_launcher().unwrap();
        assert!(own.cause.summary().starts_with("torch.RendezvousClosedError (at "), "{}", own.cause.summary());
    }

    #[test]
    fn pieces_long_lines_and_the_last_line_are_kept_within_bounds() {
        let watch = FailureWatch::default();
        let text = format!("{}\n{}last words", "x".repeat(3 * MAX_LINE), exception("pieces"));
        for byte in text.as_bytes().chunks(7) {
            watch.push(byte, Timestamp::UNIX_EPOCH);
        }
        assert_eq!(watch.failure().unwrap().cause.summary(), value_error("pieces"));
        assert_eq!(watch.last_line().as_deref(), Some("ValueError: pieces"));
        assert!(watch.seen().partial.capacity() <= 2 * MAX_LINE);
    }
}
