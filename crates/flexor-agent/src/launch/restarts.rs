//! What restarts outside a world cost, and how long to wait before each.
//!
//! The master counts failures that end a world for everybody. Those that others go on without are counted here, by the
//! launcher of the node that they happen on.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::workers::{Outcome, WorkerExit};

/// The pause before a second start.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Workers that lived so long were worth starting: what follows begins without a pause.
const LIVED_WELL: Duration = Duration::from_secs(10);

/// The restarts of one node outside a world.
#[derive(Debug)]
pub(super) struct Restarts {
    failures: u32,
    /// Whether workers have been in a world since one was last killed for nothing, if one was.
    one_kill_is_free: bool,
    next_pause: Duration,
}

impl Restarts {
    /// None so far.
    pub(super) fn begin() -> Self {
        Self { failures: 0, one_kill_is_free: true, next_pause: Duration::ZERO }
    }

    /// Workers have been in a world; to be told one is not enough.
    pub(super) fn have_worked(&mut self) {
        self.one_kill_is_free = true;
    }

    /// How often the program has failed so far.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Workers have ended like this. How often the program has failed by now.
    ///
    /// Who kills a worker comes from outside, and that is no failure of the program, unless it happens again before the
    /// next one was of any use: then it is probably its memory.
    pub(super) fn charge(&mut self, exits: &[WorkerExit]) -> u32 {
        let by_itself = |exit: &&WorkerExit| !exit.ended && !exit.outcome.is_success();
        let killed = |exit: &WorkerExit| exit.outcome == Outcome::Signal(Signal::SIGKILL as i32);
        let mut failed = exits.iter().filter(by_itself).peekable();
        if failed.peek().is_none() {
            return self.failures;
        }
        let is_free = failed.all(killed) && std::mem::take(&mut self.one_kill_is_free);
        self.failures += u32::from(!is_free);
        self.failures
    }

    /// How long to wait before workers are started again after others that lived so long.
    pub(super) fn pause(&mut self, lived: Duration) -> Duration {
        let pause = if lived >= LIVED_WELL { Duration::ZERO } else { self.next_pause };
        self.next_pause = (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        pause
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use jiff::Timestamp;

    use super::*;
    use crate::workers::{GlobalRank, LocalRank};

    fn exit(outcome: Outcome, ended: bool) -> WorkerExit {
        WorkerExit {
            local_rank: LocalRank(0),
            rank: Some(GlobalRank(0)),
            pid: 1,
            outcome,
            at: Timestamp::UNIX_EPOCH,
            ended,
            error_file: PathBuf::new(),
            error: None,
            is_python: false,
        }
    }

    const KILLED: Outcome = Outcome::Signal(9);

    #[test]
    fn a_kill_is_free_once_per_world() {
        let mut restarts = Restarts::begin();
        assert_eq!(restarts.charge(&[exit(KILLED, false)]), 0);
        assert_eq!(restarts.charge(&[exit(KILLED, false)]), 1, "it did not even come into a world");
        restarts.have_worked();
        assert_eq!(restarts.charge(&[exit(KILLED, false)]), 1);
    }

    #[test]
    fn a_failure_counts_and_what_follows_from_it_does_not() {
        let mut restarts = Restarts::begin();
        restarts.have_worked();
        assert_eq!(restarts.charge(&[exit(Outcome::Code(3), false), exit(KILLED, true)]), 1);
        assert_eq!(restarts.charge(&[exit(KILLED, false), exit(Outcome::Code(3), false)]), 2, "one of two failed");
        assert_eq!(restarts.charge(&[exit(Outcome::Code(0), false), exit(Outcome::Signal(15), true)]), 2);
    }

    #[test]
    fn the_first_start_is_at_once_and_each_that_was_no_use_makes_the_next_wait_longer() {
        let mut restarts = Restarts::begin();
        let soon = Duration::from_millis(200);
        let pauses: Vec<u64> = (0..6).map(|_| restarts.pause(soon).as_secs()).collect();
        assert_eq!(pauses, [0, 1, 2, 4, 8, 10]);
        assert_eq!(restarts.pause(Duration::from_secs(3600)), Duration::ZERO);
        assert_eq!(restarts.pause(soon), FIRST_PAUSE);
    }
}
