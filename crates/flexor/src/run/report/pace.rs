//! The rates of a job with parameter servers at each sample. Its master counts every batch, so two samples are enough to
//! compute them. The rates that the cluster shows are smoothed and lag behind.

use std::time::Duration;

use flexor_local::cluster::TrainingStatus;

use super::super::history::Sample;

/// Time span of a rate.
const WINDOW: Duration = Duration::from_secs(1);
/// A shorter span gives no rate.
const LEAST_WINDOW: Duration = Duration::from_millis(150);

/// Replaces the rates of each sample by those over the second before it.
pub fn fill_in(samples: &mut [Sample]) {
    let counted: Vec<_> = samples.iter().map(|sample| (sample.at, counts(&sample.training))).collect();
    for (index, sample) in samples.iter_mut().enumerate() {
        let before = || counted[..index].iter().rev().take_while(|(_, counts)| counts.is_some());
        let since = before().find(|(at, _)| *at + WINDOW <= sample.at).or_else(|| before().last());
        let pace = since.and_then(|(at, before)| {
            let window = sample.at.saturating_sub(*at);
            let (before, now) = ((*before)?, counted[index].1?);
            let per_second = |before: f64, now: f64| (now - before).max(0.0) / window.as_secs_f64();
            (window >= LEAST_WINDOW).then(|| (per_second(before.0, now.0), per_second(before.1, now.1)))
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
    fn rates_are_those_of_the_second_before() {
        let sample = |millis, count: Option<u64>| {
            let mut training = TrainingStatus::default();
            training.step = count.map(|count| count as f64);
            training.records = count.map(|count| Records { accounted: 10 * count, ..Records::default() });
            Sample { at: UnixTime::from_millis(millis), training }
        };
        let counts =
            [(0, None), (500, Some(0)), (1000, Some(50)), (1500, Some(100)), (2000, Some(100)), (2500, Some(100))];
        let mut samples: Vec<Sample> = counts.into_iter().map(|(millis, count)| sample(millis, count)).collect();
        fill_in(&mut samples);
        let paces = |of: fn(&TrainingStatus) -> Option<f64>| {
            samples.iter().map(|sample| of(&sample.training)).collect::<Vec<_>>()
        };
        let steps = [None, None, Some(100.0), Some(100.0), Some(50.0), Some(0.0)];
        assert_eq!(paces(|training| training.steps_per_second), steps);
        assert_eq!(paces(|training| training.records_per_second), steps.map(|pace| pace.map(|pace| pace * 10.0)));
    }
}
