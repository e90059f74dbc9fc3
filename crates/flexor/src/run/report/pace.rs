//! How fast a job with parameter servers went at each moment. Its master counts every batch itself, so that two samples
//! tell; what the cluster shows meanwhile is steadier, and comes later.

use std::time::Duration;

use flexor_local::cluster::TrainingStatus;

use super::super::history::Sample;

/// What a pace is taken over.
const OVER: Duration = Duration::from_secs(1);
/// Over less than this it is none.
const LEAST: Duration = Duration::from_millis(150);

/// Puts the pace of the second before it into each sample.
pub fn as_it_went(samples: &mut [Sample]) {
    let counted: Vec<_> = samples.iter().map(|sample| (sample.at, counts(&sample.training))).collect();
    for (place, sample) in samples.iter_mut().enumerate() {
        let before = || counted[..place].iter().rev().take_while(|(_, counts)| counts.is_some());
        let since = before().find(|(at, _)| *at + OVER <= sample.at).or_else(|| before().last());
        let pace = since.and_then(|(at, before)| {
            let lasted = sample.at.saturating_sub(*at);
            let (before, now) = ((*before)?, counted[place].1?);
            let per_second = |before: f64, now: f64| (now - before).max(0.0) / lasted.as_secs_f64();
            (lasted >= LEAST).then(|| (per_second(before.0, now.0), per_second(before.1, now.1)))
        });
        sample.training.steps_per_second = pace.map(|(steps, _)| steps);
        sample.training.records_per_second = pace.map(|(_, records)| records);
    }
}

/// Steps and records so far.
#[expect(clippy::cast_precision_loss, reason = "a pace for people to read")]
fn counts(training: &TrainingStatus) -> Option<(f64, f64)> {
    Some((training.step?, training.records?.accounted as f64))
}

#[cfg(test)]
mod tests {
    use flexor_local::cluster::Records;
    use flexor_model::UnixTime;

    use super::*;

    #[test]
    fn a_pace_is_that_of_the_second_before() {
        let sample = |millis, count: Option<u64>| {
            let mut training = TrainingStatus::default();
            training.step = count.map(|count| count as f64);
            training.records = count.map(|count| Records { accounted: 10 * count, ..Records::default() });
            Sample { at: UnixTime::from_millis(millis), training }
        };
        let counts =
            [(0, None), (500, Some(0)), (1000, Some(50)), (1500, Some(100)), (2000, Some(100)), (2500, Some(100))];
        let mut samples: Vec<Sample> = counts.into_iter().map(|(millis, count)| sample(millis, count)).collect();
        as_it_went(&mut samples);
        let paces = |of: fn(&TrainingStatus) -> Option<f64>| {
            samples.iter().map(|sample| of(&sample.training)).collect::<Vec<_>>()
        };
        let steps = [None, None, Some(100.0), Some(100.0), Some(50.0), Some(0.0)];
        assert_eq!(paces(|training| training.steps_per_second), steps);
        assert_eq!(paces(|training| training.records_per_second), steps.map(|pace| pace.map(|pace| pace * 10.0)));
    }
}
