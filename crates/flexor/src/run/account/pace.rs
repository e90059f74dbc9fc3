//! The rates of a job in this run. They are differences to the first sample with record counts, so the progress of an
//! earlier run or of a restored checkpoint does not count.

use flexor_local::cluster::{JobView, Records, TrainingStatus};
use flexor_model::UnixTime;

use super::Pace;
use crate::run::history::Sample;

/// The rates from the first count of records to the last record, over the training time between them. `None` if no record
/// was counted.
pub fn of(job: &JobView, samples: &[Sample], end: UnixTime) -> Option<Pace> {
    let counted = samples.iter().position(|sample| sample.training.records.is_some())?;
    let samples = &samples[counted..];
    // Workers without a rendezvous continue to train during a recovery.
    let has_rendezvous = job.training.as_ref().is_some_and(|training| training.round.is_some());
    let trained = |until: UnixTime| {
        let split = job.timeline.split(until);
        if has_rendezvous { split.training } else { split.training + split.recovering }
    };
    // After the last record the model is saved and evaluated, which is no training.
    let all = job.training.as_ref().and_then(|training| training.records).map(processed);
    let has_all = |sample: &&Sample| sample.training.records.map(processed) >= all;
    let done = samples.iter().find(has_all).map_or(end, |sample| sample.at);
    let seconds = trained(done).saturating_sub(trained(samples[0].at)).as_secs_f64();
    let statuses = || samples.iter().map(|sample| &sample.training).chain(&job.training);
    let records = growth(statuses().filter_map(|training| training.records.map(processed)));
    let has_steps = statuses().any(|training| training.step.is_some());
    let steps = growth(statuses().filter_map(step));
    (records > 0.0 && seconds > 0.0)
        .then(|| Pace { records_per_second: records / seconds, steps_per_second: has_steps.then_some(steps / seconds) })
}

/// Processed records. Rewound records are processed twice.
#[expect(clippy::cast_precision_loss, reason = "a pace for people to read")]
fn processed(records: Records) -> f64 {
    (records.accounted + records.rewound) as f64
}

fn step(training: &TrainingStatus) -> Option<f64> {
    training.step
}

/// The sum of all increases of a count. Decreases do not count.
fn growth(counts: impl Iterator<Item = f64>) -> f64 {
    let mut last = None;
    let mut grown = 0.0;
    for count in counts {
        grown += last.map_or(0.0, |last| f64::max(count - last, 0.0));
        last = Some(count);
    }
    grown
}

#[cfg(test)]
mod tests {
    use flexor_engine::controller::Phase;

    use std::time::Duration;

    use super::super::tests::{BEGAN, job};
    use super::*;

    fn training(accounted: u64, rewound: u64, step: f64) -> TrainingStatus {
        let mut training = TrainingStatus::default();
        training.round = Some(1);
        training.records = Some(Records { accounted, rewound, ..Records::default() });
        training.step = Some(step);
        training
    }

    fn sample(seconds: u64, training: TrainingStatus) -> Sample {
        Sample { at: BEGAN + Duration::from_secs(seconds), training }
    }

    /// The pace of a job that trains from 1 s to 4 s and from 6 s to 10 s.
    fn pace(samples: &[Sample], last: TrainingStatus) -> Option<(f64, Option<f64>)> {
        let mut job = job(Phase::Succeeded);
        job.training = Some(last);
        let pace = of(&job, samples, BEGAN + Duration::from_secs(10))?;
        Some((pace.records_per_second, pace.steps_per_second))
    }

    #[test]
    fn the_pace_counts_only_training_time() {
        let samples =
            [sample(1, TrainingStatus::default()), sample(2, training(0, 0, 0.0)), sample(5, training(60, 0, 6.0))];
        assert_eq!(pace(&samples, training(900, 0, 12.0)), Some((150.0, Some(2.0))), "six seconds from the second on");
    }

    #[test]
    fn time_after_the_last_record_is_not_training() {
        let samples =
            [sample(1, training(0, 0, 0.0)), sample(3, training(900, 0, 9.0)), sample(4, training(900, 0, 9.0))];
        assert_eq!(pace(&samples, training(900, 0, 9.0)), Some((450.0, Some(4.5))));
    }

    #[test]
    fn workers_without_a_rendezvous_train_during_a_recovery() {
        let alone = |accounted| {
            let mut training = training(accounted, 0, 0.0);
            training.round = None;
            training
        };
        let samples = [sample(2, alone(0))];
        assert_eq!(pace(&samples, alone(800)), Some((100.0, Some(0.0))), "eight seconds from the second on");
    }

    #[test]
    fn progress_before_this_run_does_not_count() {
        let samples = [sample(1, training(860, 0, 86.0)), sample(5, training(880, 0, 88.0))];
        assert_eq!(pace(&samples, training(930, 0, 93.0)), Some((10.0, Some(1.0))));
        assert_eq!(pace(&samples[..1], training(860, 0, 86.0)), None, "all records were counted before");
    }

    #[test]
    fn rewound_records_count_again() {
        let samples =
            [sample(1, training(0, 0, 0.0)), sample(5, training(300, 0, 30.0)), sample(7, training(100, 200, 10.0))];
        assert_eq!(pace(&samples, training(500, 200, 50.0)), Some((100.0, Some(10.0))));
    }

    #[test]
    fn a_job_without_samples_has_no_pace() {
        assert_eq!(pace(&[], training(500, 0, 50.0)), None);
    }
}
