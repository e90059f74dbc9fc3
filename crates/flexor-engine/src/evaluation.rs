//! Schedules evaluations during training: one every so many records, by one worker at a time.
//!
//! An evaluation that is lost with its worker is due again. A slow one delays the next; skipped ones are not made up
//! for. This module knows neither what is evaluated nor the result.

use std::num::NonZeroU64;

use crate::ledger::WorkerId;

/// The evaluation schedule of a job.
#[derive(Debug, Default)]
pub struct Evaluations {
    /// The number of the last evaluation that was assigned and not lost.
    begun: u64,
    running: Option<(u64, WorkerId)>,
}

impl Evaluations {
    /// Assigns the evaluation that is due at this record count, if any, to the worker, and returns its number. The
    /// first is due after `every` records, the second after twice as many, and so on.
    pub fn next(&mut self, worker: &WorkerId, accounted: u64, every: NonZeroU64) -> Option<u64> {
        // A worker that asks is idle, so it does not run an earlier evaluation any more.
        self.worker_lost(worker);
        let due = accounted / every;
        if self.running.is_some() || due <= self.begun {
            return None;
        }
        self.begun = due;
        self.running = Some((due, worker.clone()));
        Some(due)
    }

    /// Ends an evaluation, successful or not. Returns whether it was assigned to this worker.
    pub fn finish(&mut self, worker: &WorkerId, number: u64) -> bool {
        self.running.take_if(|(running, by)| *running == number && by == worker).is_some()
    }

    /// A worker is lost: its evaluation is due again.
    pub fn worker_lost(&mut self, worker: &WorkerId) {
        if let Some((number, _)) = self.running.take_if(|(_, by)| by == worker) {
            self.begun = number - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: NonZeroU64 = NonZeroU64::new(100).unwrap();

    fn workers() -> (WorkerId, WorkerId) {
        (WorkerId::new("chief-0", 1), WorkerId::new("worker-0", 1))
    }

    #[test]
    fn one_worker_evaluates_at_a_time() {
        let (one, other) = workers();
        let mut all = Evaluations::default();
        assert_eq!(all.next(&one, 99, EVERY), None);
        assert_eq!(all.next(&one, 100, EVERY), Some(1));
        assert_eq!(all.next(&other, 250, EVERY), None);
        assert!(!all.finish(&other, 1) && all.finish(&one, 1) && !all.finish(&one, 1));
        assert_eq!(all.next(&other, 350, EVERY), Some(3), "the second one is skipped");
    }

    #[test]
    fn an_evaluation_lost_with_its_worker_is_due_again() {
        let (one, other) = workers();
        let mut all = Evaluations::default();
        assert_eq!(all.next(&one, 100, EVERY), Some(1));
        all.worker_lost(&other);
        assert_eq!(all.next(&other, 100, EVERY), None);
        all.worker_lost(&one);
        assert_eq!(all.next(&other, 100, EVERY), Some(1));
        assert!(!all.finish(&one, 1), "it is assigned to another worker");
        assert_eq!(all.next(&other, 100, EVERY), Some(1), "the answer was lost");
    }

    #[test]
    fn rewound_data_is_not_evaluated_again() {
        let (one, _) = workers();
        let mut all = Evaluations::default();
        assert_eq!(all.next(&one, 200, EVERY), Some(2));
        assert!(all.finish(&one, 2));
        assert_eq!(all.next(&one, 100, EVERY), None);
        assert_eq!(all.next(&one, 300, EVERY), Some(3));
    }
}
