//! How a job's training stood, now and then: ever more seldom, so that a long run needs no more room than a short one.

use std::time::Duration;

use flexor_local::cluster::TrainingStatus;
use flexor_model::UnixTime;

/// How often at first.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// As many as a picture has points; then every second one is dropped.
const MOST: usize = 2048;

/// How training stood at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Since the Unix epoch.
    pub at: UnixTime,
    /// How it stood.
    pub training: TrainingStatus,
}

/// The samples of one job.
pub struct Samples {
    all: Vec<Sample>,
    pause: Duration,
    has_ended: bool,
}

impl Default for Samples {
    fn default() -> Self {
        Self { all: Vec::new(), pause: FIRST_PAUSE, has_ended: false }
    }
}

impl Samples {
    /// Takes one, unless the last is from just before.
    pub fn take(&mut self, training: &TrainingStatus, now: UnixTime) {
        if self.all.last().is_some_and(|last| now < last.at + self.pause) {
            return;
        }
        if self.all.len() >= MOST {
            let mut is_kept = false;
            self.all.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.pause *= 2;
        }
        self.add(training, now);
    }

    /// Takes the last one, whenever the one before it was: the job is over. What is heard later is of that moment too.
    pub fn end(&mut self, training: &TrainingStatus, now: UnixTime) {
        match self.all.last_mut() {
            Some(last) if self.has_ended => last.training = training.as_of(last.at),
            Some(_) | None => {
                self.add(training, now);
                self.has_ended = true;
            }
        }
    }

    fn add(&mut self, training: &TrainingStatus, now: UnixTime) {
        self.has_ended = false;
        self.all.push(Sample { at: now, training: training.as_of(now) });
    }

    /// All of them, oldest first.
    pub fn all(&self) -> &[Sample] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_as_many_samples_as_a_short_one() {
        let mut samples = Samples::default();
        let training = TrainingStatus::default();
        for tick in 0..100_000 {
            samples.take(&training, UnixTime::from_millis(100 * tick));
        }
        assert!((MOST / 2..=MOST).contains(&samples.all().len()), "{}", samples.all().len());
        let first = samples.all()[0].at;
        assert_eq!(first, UnixTime::EPOCH);
        assert!(samples.all().windows(2).all(|pair| pair[0].at < pair[1].at));
    }

    #[test]
    fn how_it_stood_at_the_end_is_known_and_only_once() {
        let mut samples = Samples::default();
        let mut last = TrainingStatus::default();
        last.step = Some(7.0);
        samples.take(&TrainingStatus::default(), UnixTime::EPOCH);
        samples.end(&TrainingStatus::default(), UnixTime::from_millis(10));
        for millis in [20, 900] {
            samples.end(&last, UnixTime::from_millis(millis));
        }
        assert_eq!(samples.all()[1..], [Sample { at: UnixTime::from_millis(10), training: last.clone() }]);
        // Another job of the same name.
        samples.take(&TrainingStatus::default(), UnixTime::from_secs(1));
        samples.end(&last, UnixTime::from_secs(2));
        assert_eq!(samples.all().len(), 4);
    }
}
