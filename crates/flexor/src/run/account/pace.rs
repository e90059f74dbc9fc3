//! How fast a job went in this run. What a checkpoint or a run before this one had done already was there when records
//! were counted first, so that it does not count.

use flexor_local::cluster::{JobView, Records, TrainingStatus};
use flexor_model::UnixTime;

use super::Pace;
use crate::run::history::Sample;

/// The pace from when records were first counted until the last of them was, over the time that was trained meanwhile;
/// none where nothing was done.
pub fn of(job: &JobView, samples: &[Sample], end: UnixTime) -> Option<Pace> {
    let counted = samples.iter().position(|sample| sample.training.records.is_some())?;
    let samples = &samples[counted..];
    // Workers that do not meet go on while something that was lost is put right.
    let meets = job.training.as_ref().is_some_and(|training| training.round.is_some());
    let trained = |until: UnixTime| {
        let split = job.timeline.split(until);
        if meets { split.training } else { split.training + split.recovering }
    };
    // What comes after the last record is no training: the model is saved and measured.
    let all = job.training.as_ref().and_then(|training| training.records).map(gone_through);
    let has_all = |sample: &&Sample| sample.training.records.map(gone_through) >= all;
    let done = samples.iter().find(has_all).map_or(end, |sample| sample.at);
    let seconds = trained(done).saturating_sub(trained(samples[0].at)).as_secs_f64();
    let standings = || samples.iter().map(|sample| &sample.training).chain(&job.training);
    let records = growth(standings().filter_map(|training| training.records.map(gone_through)));
    let has_steps = standings().any(|training| training.step.is_some());
    let steps = growth(standings().filter_map(step));
    (records > 0.0 && seconds > 0.0)
        .then(|| Pace { records_per_second: records / seconds, steps_per_second: has_steps.then_some(steps / seconds) })
}

/// What is opened again is gone through twice.
#[expect(clippy::cast_precision_loss, reason = "a pace for people to read")]
fn gone_through(records: Records) -> f64 {
    (records.accounted + records.rewound) as f64
}

fn step(training: &TrainingStatus) -> Option<f64> {
    training.step
}

/// By how much a count has grown in all; one that was set back grows from there.
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

    /// Of a job that trains from 1 s to 4 s and from 6 s to 10 s.
    fn pace(samples: &[Sample], last: TrainingStatus) -> Option<(f64, Option<f64>)> {
        let mut job = job(Phase::Succeeded);
        job.training = Some(last);
        let pace = of(&job, samples, BEGAN + Duration::from_secs(10))?;
        Some((pace.records_per_second, pace.steps_per_second))
    }

    #[test]
    fn the_pace_is_that_of_the_time_in_which_it_trained() {
        let samples =
            [sample(1, TrainingStatus::default()), sample(2, training(0, 0, 0.0)), sample(5, training(60, 0, 6.0))];
        assert_eq!(pace(&samples, training(900, 0, 12.0)), Some((150.0, Some(2.0))), "six seconds from the second on");
    }

    #[test]
    fn what_is_done_when_all_is_learnt_is_not_training() {
        let samples =
            [sample(1, training(0, 0, 0.0)), sample(3, training(900, 0, 9.0)), sample(4, training(900, 0, 9.0))];
        assert_eq!(pace(&samples, training(900, 0, 9.0)), Some((450.0, Some(4.5))));
    }

    #[test]
    fn those_who_do_not_meet_train_while_others_recover() {
        let alone = |accounted| {
            let mut training = training(accounted, 0, 0.0);
            training.round = None;
            training
        };
        let samples = [sample(2, alone(0))];
        assert_eq!(pace(&samples, alone(800)), Some((100.0, Some(0.0))), "eight seconds from the second on");
    }

    #[test]
    fn what_was_done_before_this_run_does_not_count() {
        let samples = [sample(1, training(860, 0, 86.0)), sample(5, training(880, 0, 88.0))];
        assert_eq!(pace(&samples, training(930, 0, 93.0)), Some((10.0, Some(1.0))));
        assert_eq!(pace(&samples[..1], training(860, 0, 86.0)), None, "all was done");
    }

    #[test]
    fn what_is_gone_through_again_counts_again() {
        let samples =
            [sample(1, training(0, 0, 0.0)), sample(5, training(300, 0, 30.0)), sample(7, training(100, 200, 10.0))];
        assert_eq!(pace(&samples, training(500, 200, 50.0)), Some((100.0, Some(10.0))));
    }

    #[test]
    fn nobody_knows_the_pace_of_what_was_not_seen() {
        assert_eq!(pace(&[], training(500, 0, 50.0)), None);
    }
}
