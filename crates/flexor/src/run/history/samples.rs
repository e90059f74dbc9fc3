//! Samples of a job's training status. Their interval doubles as they grow in number, so memory is bounded.

use std::time::Duration;

use flexor_local::cluster::TrainingStatus;
use flexor_model::UnixTime;

/// Interval of the first samples.
const FIRST_INTERVAL: Duration = Duration::from_millis(200);
/// About as many as a picture has points. Above this, every second sample is dropped.
const MOST: usize = 2048;

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Since the Unix epoch.
    pub at: UnixTime,
    pub training: TrainingStatus,
}

/// The samples of one job.
pub struct Samples {
    all: Vec<Sample>,
    interval: Duration,
    has_ended: bool,
}

impl Default for Samples {
    fn default() -> Self {
        Self { all: Vec::new(), interval: FIRST_INTERVAL, has_ended: false }
    }
}

impl Samples {
    /// Takes a sample if one is due.
    pub fn take(&mut self, training: &TrainingStatus, now: UnixTime) {
        if self.all.last().is_some_and(|last| now < last.at + self.interval) {
            return;
        }
        if self.all.len() >= MOST {
            let mut is_kept = false;
            self.all.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.interval *= 2;
        }
        self.add(training, now);
    }

    /// Takes the final sample of a job that is over. Later updates replace its status and keep its time.
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

    /// All samples, oldest first.
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
    fn a_job_has_exactly_one_final_sample() {
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
