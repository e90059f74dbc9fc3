//! Restarts outside a world: which are charged, and the delay before each.
//!
//! The master counts failures that end a world for all nodes. Where the other nodes go on, the launcher of the failed node
//! counts them here.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::workers::{ExitOutcome, WorkerExit};

/// The delay before a second start.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(10);
/// Workers that lived this long are restarted without delay.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The restarts of one node outside a world.
#[derive(Debug)]
pub(super) struct Restarts {
    failures: u32,
    /// Whether the next kill is not charged: workers have been in a world since the last free one.
    one_kill_is_free: bool,
    next_delay: Duration,
}

impl Restarts {
    pub(super) fn new() -> Self {
        Self { failures: 0, one_kill_is_free: true, next_delay: Duration::ZERO }
    }

    /// Workers have been in a world. Being sent a world is not enough.
    pub(super) fn note_work(&mut self) {
        self.one_kill_is_free = true;
    }

    /// Charged failures of the program so far.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Charges the exits of a group, and returns the failures of the program by now.
    ///
    /// A SIGKILL comes from outside and is not charged. A second one before the workers were in a world again is charged:
    /// the program probably ran out of memory.
    pub(super) fn charge(&mut self, exits: &[WorkerExit]) -> u32 {
        let by_itself = |exit: &&WorkerExit| !exit.during_shutdown && !exit.outcome.is_success();
        let killed = |exit: &WorkerExit| exit.outcome == ExitOutcome::Signal(Signal::SIGKILL as i32);
        let mut failed = exits.iter().filter(by_itself).peekable();
        if failed.peek().is_none() {
            return self.failures;
        }
        let is_free = failed.all(killed) && std::mem::take(&mut self.one_kill_is_free);
        self.failures += u32::from(!is_free);
        self.failures
    }

    /// The delay before the next start. The last workers lived for `lived`.
    pub(super) fn delay(&mut self, lived: Duration) -> Duration {
        let delay = if lived >= STABLE_AFTER { Duration::ZERO } else { self.next_delay };
        self.next_delay = (delay * 2).clamp(FIRST_DELAY, LONGEST_DELAY);
        delay
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use jiff::Timestamp;

    use super::*;
    use crate::workers::{GlobalRank, LocalRank};

    fn exit(outcome: ExitOutcome, during_shutdown: bool) -> WorkerExit {
        WorkerExit {
            local_rank: LocalRank(0),
            rank: Some(GlobalRank(0)),
            pid: 1,
            outcome,
            at: Timestamp::UNIX_EPOCH,
            during_shutdown,
            error_file: PathBuf::new(),
            error: None,
            is_python: false,
            last_line: None,
        }
    }

    const KILLED: ExitOutcome = ExitOutcome::Signal(9);

    #[test]
    fn a_kill_is_free_once_per_world() {
        let mut restarts = Restarts::new();
        assert_eq!(restarts.charge(&[exit(KILLED, false)]), 0);
        assert_eq!(restarts.charge(&[exit(KILLED, false)]), 1, "no worker was in a world since");
        restarts.note_work();
        assert_eq!(restarts.charge(&[exit(KILLED, false)]), 1);
    }

    #[test]
    fn a_failure_is_charged_and_its_consequences_are_not() {
        let mut restarts = Restarts::new();
        restarts.note_work();
        assert_eq!(restarts.charge(&[exit(ExitOutcome::Code(3), false), exit(KILLED, true)]), 1);
        assert_eq!(restarts.charge(&[exit(KILLED, false), exit(ExitOutcome::Code(3), false)]), 2, "one of two failed");
        assert_eq!(restarts.charge(&[exit(ExitOutcome::Code(0), false), exit(ExitOutcome::Signal(15), true)]), 2);
    }

    #[test]
    fn the_first_start_is_at_once_and_each_short_life_lengthens_the_next_delay() {
        let mut restarts = Restarts::new();
        let soon = Duration::from_millis(200);
        let delays: Vec<u64> = (0..6).map(|_| restarts.delay(soon).as_secs()).collect();
        assert_eq!(delays, [0, 1, 2, 4, 8, 10]);
        assert_eq!(restarts.delay(Duration::from_secs(3600)), Duration::ZERO);
        assert_eq!(restarts.delay(soon), FIRST_DELAY);
    }
}
