//! How a process ended.

use std::fmt;

use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::supervisor::ProcessKey;

/// The exit of a process, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitOutcome {
    /// Exit code.
    Code(i32),
    /// Number of the signal that ended it.
    Signal(i32),
}

impl ExitOutcome {
    pub fn is_success(self) -> bool {
        self == ExitOutcome::Code(0)
    }

    /// The number that Python's `subprocess` uses: the exit code, or the negative number of the signal.
    pub fn number(self) -> i32 {
        match self {
            ExitOutcome::Code(code) => code,
            ExitOutcome::Signal(signal) => -signal,
        }
    }

    /// The name of the signal; real-time signals have none.
    pub fn signal_name(self) -> Option<&'static str> {
        match self {
            ExitOutcome::Code(_) => None,
            ExitOutcome::Signal(signal) => Signal::try_from(signal).ok().map(Signal::as_str),
        }
    }
}

impl fmt::Display for ExitOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.signal_name()) {
            (ExitOutcome::Code(code), _) => write!(f, "exit code {code}"),
            (ExitOutcome::Signal(signal), Some(name)) => write!(f, "signal {signal} ({name})"),
            (ExitOutcome::Signal(signal), None) => write!(f, "signal {signal}"),
        }
    }
}

/// A program that has ended. Its descendants may still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    pub key: ProcessKey,
    pub pid: u32,
    pub outcome: ExitOutcome,
    /// When the exit was seen.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_prints_as_shells_print_it() {
        assert_eq!(ExitOutcome::Code(3).to_string(), "exit code 3");
        assert_eq!(ExitOutcome::Signal(9).to_string(), "signal 9 (SIGKILL)");
        assert_eq!(ExitOutcome::Signal(40).to_string(), "signal 40");
        assert_eq!((ExitOutcome::Code(3).number(), ExitOutcome::Signal(9).number()), (3, -9));
        assert!(ExitOutcome::Code(0).is_success());
        assert!(!ExitOutcome::Code(1).is_success() && !ExitOutcome::Signal(15).is_success());
    }
}
