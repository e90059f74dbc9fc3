//! Steps and records per second, over the last few seconds.
//!
//! Time comes in as what has passed since some beginning.

use std::collections::VecDeque;
use std::time::Duration;

/// What counts as lately.
const LATELY: Duration = Duration::from_secs(5);

/// How far apart marks are at least, so that there are few of them.
const BETWEEN: Duration = Duration::from_millis(100);

/// How far training has come, and when.
#[derive(Debug, Clone)]
pub struct Pace {
    now: Mark,
    /// Earlier marks: the first one is the latest that lies long enough ago, if there is such a one.
    marks: VecDeque<Mark>,
}

#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Duration,
    steps: u64,
    records: u64,
}

/// How fast training goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Batches per second.
    pub steps: f64,
    /// Records per second.
    pub records: f64,
}

impl Pace {
    /// Training begins.
    pub fn new(now: Duration) -> Self {
        let mark = Mark { at: now, steps: 0, records: 0 };
        Self { now: mark, marks: VecDeque::from([mark]) }
    }

    /// A step over some records is done.
    pub fn step(&mut self, records: u64, now: Duration) {
        self.now = Mark { at: now.max(self.now.at), steps: self.now.steps + 1, records: self.now.records + records };
        if self.marks.back().is_none_or(|last| self.now.at >= last.at + BETWEEN) {
            self.marks.push_back(self.now);
        }
        while self.marks.get(1).is_some_and(|second| second.at + LATELY <= self.now.at) {
            self.marks.pop_front();
        }
    }

    /// Steps since the beginning.
    pub fn steps(&self) -> u64 {
        self.now.steps
    }

    /// Records since the beginning.
    pub fn records(&self) -> u64 {
        self.now.records
    }

    /// How fast it went lately, until now.
    pub fn rates(&self, now: Duration) -> Rates {
        let since = |mark: &Mark| now.saturating_sub(mark.at).as_secs_f64();
        let from = self.marks.iter().rev().find(|mark| mark.at + LATELY <= now).or(self.marks.front());
        match from {
            Some(from) if since(from) > 0.0 => Rates {
                steps: (self.now.steps - from.steps) as f64 / since(from),
                records: (self.now.records - from.records) as f64 / since(from),
            },
            Some(_) | None => Rates { steps: 0.0, records: 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn before_the_first_step_nothing_moves() {
        assert_eq!(Pace::new(at(7)).rates(at(7)), Rates { steps: 0.0, records: 0.0 });
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut pace = Pace::new(at(0));
        (1..=1000).for_each(|step| pace.step(10, at(step)));
        assert_eq!(pace.rates(at(1000)), Rates { steps: 1000.0, records: 10_000.0 });
        (1..=100).for_each(|step| pace.step(10, at(1000 + step * 100)));
        let rates = pace.rates(at(11_000));
        assert!((rates.steps - 10.0).abs() < 0.01 && (rates.records - 100.0).abs() < 0.1, "{rates:?}");
        assert_eq!((pace.steps(), pace.records()), (1100, 11_000));
        assert!(pace.marks.len() < 60);
    }

    #[test]
    fn who_stands_still_is_seen_to() {
        let mut pace = Pace::new(at(0));
        (1..=20).for_each(|step| pace.step(1, at(step * 100)));
        assert_eq!(pace.rates(at(60_000)), Rates { steps: 0.0, records: 0.0 });
    }
}
