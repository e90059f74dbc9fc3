//! How a process ended.

use std::fmt;

use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::supervised::ProcessKey;

/// What the kernel says about the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited with this code.
    Code(i32),
    /// A signal of this number ended it.
    Signal(i32),
}

impl Outcome {
    /// Whether it is what a program answers that did what it should.
    pub fn is_success(self) -> bool {
        self == Outcome::Code(0)
    }

    /// The number Python's `subprocess` has for it: the exit code, or the signal's number below zero.
    pub fn number(self) -> i32 {
        match self {
            Outcome::Code(code) => code,
            Outcome::Signal(signal) => -signal,
        }
    }

    /// The name of the signal, where it has one; real-time signals have none.
    pub fn signal_name(self) -> Option<&'static str> {
        match self {
            Outcome::Code(_) => None,
            Outcome::Signal(signal) => Signal::try_from(signal).ok().map(Signal::as_str),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.signal_name()) {
            (Outcome::Code(code), _) => write!(f, "exit code {code}"),
            (Outcome::Signal(signal), Some(name)) => write!(f, "signal {signal} ({name})"),
            (Outcome::Signal(signal), None) => write!(f, "signal {signal}"),
        }
    }
}

/// A program that is gone. What it had started may still be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessExit {
    /// What it was started as.
    pub key: ProcessKey,
    /// The process id that it had.
    pub pid: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// When its end was noticed.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_reads_as_people_know_it() {
        assert_eq!(Outcome::Code(3).to_string(), "exit code 3");
        assert_eq!(Outcome::Signal(9).to_string(), "signal 9 (SIGKILL)");
        assert_eq!(Outcome::Signal(40).to_string(), "signal 40");
        assert_eq!((Outcome::Code(3).number(), Outcome::Signal(9).number()), (3, -9));
        assert!(Outcome::Code(0).is_success());
        assert!(!Outcome::Code(1).is_success() && !Outcome::Signal(15).is_success());
    }
}
