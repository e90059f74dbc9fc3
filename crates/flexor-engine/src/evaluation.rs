//! When the model is measured while it is trained, and by whom: every so many records, by one worker at a time.
//!
//! A measurement that is lost with its worker is due again. One that takes longer than the next is due puts that off; none
//! is made up for. What is measured, and what came of it, is not known here.

use std::num::NonZeroU64;

use crate::shards::WorkerId;

/// The measurements of a job.
#[derive(Debug, Default)]
pub struct Evaluations {
    /// The number of the last one that was given to somebody, and not lost.
    begun: u64,
    running: Option<(u64, WorkerId)>,
}

impl Evaluations {
    /// The number of the measurement that is due when so many records are accounted for, if a worker is to make it now:
    /// the first one is due after `every` records, and so on.
    pub fn next(&mut self, worker: &WorkerId, accounted: u64, every: NonZeroU64) -> Option<u64> {
        // Who asks has nothing to do, whatever it was given before.
        self.gone(worker);
        let due = accounted / every;
        if self.running.is_some() || due <= self.begun {
            return None;
        }
        self.begun = due;
        self.running = Some((due, worker.clone()));
        Some(due)
    }

    /// A worker has done what it was given, well or not. Whether it was its own.
    pub fn finish(&mut self, worker: &WorkerId, number: u64) -> bool {
        self.running.take_if(|(running, by)| *running == number && by == worker).is_some()
    }

    /// A worker is gone: what it was given is due again.
    pub fn gone(&mut self, worker: &WorkerId) {
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
    fn one_worker_measures_at_a_time() {
        let (one, other) = workers();
        let mut all = Evaluations::default();
        assert_eq!(all.next(&one, 99, EVERY), None);
        assert_eq!(all.next(&one, 100, EVERY), Some(1));
        assert_eq!(all.next(&other, 250, EVERY), None);
        assert!(!all.finish(&other, 1) && all.finish(&one, 1) && !all.finish(&one, 1));
        assert_eq!(all.next(&other, 350, EVERY), Some(3), "the second one is not made up for");
    }

    #[test]
    fn what_is_lost_with_its_worker_is_due_again() {
        let (one, other) = workers();
        let mut all = Evaluations::default();
        assert_eq!(all.next(&one, 100, EVERY), Some(1));
        all.gone(&other);
        assert_eq!(all.next(&other, 100, EVERY), None);
        all.gone(&one);
        assert_eq!(all.next(&other, 100, EVERY), Some(1));
        assert!(!all.finish(&one, 1), "it is another worker's by now");
        assert_eq!(all.next(&other, 100, EVERY), Some(1), "its answer was lost on the way");
    }

    #[test]
    fn data_that_was_rewound_is_not_measured_again() {
        let (one, _) = workers();
        let mut all = Evaluations::default();
        assert_eq!(all.next(&one, 200, EVERY), Some(2));
        assert!(all.finish(&one, 2));
        assert_eq!(all.next(&one, 100, EVERY), None);
        assert_eq!(all.next(&one, 300, EVERY), Some(3));
    }
}
