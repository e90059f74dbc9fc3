//! Training metrics of the job. Workers report loss, AUC and accuracy about once a second, for what they trained on
//! since the last report, and the scores on test data. For people and reports; nothing is decided by them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// Reports within this time of the newest are averaged.
const WINDOW: Duration = Duration::from_millis(2500);
/// The most stored reports.
const MAX_REPORTS: usize = 4096;

/// Recent reports of the workers.
#[derive(Debug, Default)]
pub struct ScoreReports {
    reports: VecDeque<Report>,
    test: Scores,
    /// The rewind epoch in which the final model was tested.
    final_test: Option<u64>,
}

/// The job's scores; a score that no worker reported is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoresStatus {
    /// Scores on training data: means over all workers, in the last seconds of reports.
    #[serde(flatten)]
    pub training: Scores,
    /// Scores on test data.
    pub test: Scores,
}

/// Scores of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Scores {
    pub loss: Option<f64>,
    pub auc: Option<f64>,
    /// The share of correct predictions.
    pub accuracy: Option<f64>,
}

#[derive(Debug)]
struct Report {
    at: Duration,
    /// The weight in the mean.
    records: f64,
    scores: Scores,
}

impl ScoreReports {
    /// Adds a worker's report. Other numbers in it are ignored. Scores on test data are those of the final model; after
    /// another rewind the model is not final any more.
    pub fn add(&mut self, values: &HashMap<String, f64>, now: Duration, rewind_epoch: u64) {
        let value = |name: &str| values.get(name).copied().filter(|value| value.is_finite());
        let scores = Scores { loss: value("loss"), auc: value("auc"), accuracy: value("accuracy") };
        if scores.loss.is_some() {
            let records = value("measured_records").filter(|records| *records > 0.0).unwrap_or(1.0);
            self.reports.push_back(Report { at: now, records, scores });
        }
        while self.reports.front().is_some_and(|first| first.at + WINDOW < now) && self.reports.len() > 1
            || self.reports.len() > MAX_REPORTS
        {
            self.reports.pop_front();
        }
        let test = Scores { loss: value("test_loss"), auc: value("test_auc"), accuracy: value("test_accuracy") };
        if test != Scores::default() {
            (self.test, self.final_test) = (test, Some(rewind_epoch));
        }
    }

    /// Takes over the scores of an evaluation during training. It may end after the test of the final model.
    pub fn evaluated(&mut self, test: Scores, rewind_epoch: u64) {
        if self.final_test != Some(rewind_epoch) {
            self.test = test;
        }
    }

    /// The scores; `None` before the first report.
    pub fn status(&self) -> Option<ScoresStatus> {
        let status = ScoresStatus { training: self.training(), test: self.test };
        (status != ScoresStatus::default()).then_some(status)
    }

    fn training(&self) -> Scores {
        let Some(newest) = self.reports.back() else { return Scores::default() };
        let lately = || self.reports.iter().filter(|report| report.at + WINDOW >= newest.at);
        let mean = |score: fn(&Scores) -> Option<f64>| {
            let known = || lately().filter_map(|report| Some((report.records, score(&report.scores)?)));
            let records: f64 = known().map(|(records, _)| records).sum();
            (records > 0.0).then(|| known().map(|(records, score)| records * score).sum::<f64>() / records)
        };
        Scores {
            loss: mean(|scores| scores.loss),
            auc: mean(|scores| scores.auc),
            accuracy: mean(|scores| scores.accuracy),
        }
    }
}

impl From<ScoresStatus> for wire::Learning {
    fn from(ScoresStatus { training, test }: ScoresStatus) -> Self {
        Self {
            loss: training.loss,
            auc: training.auc,
            accuracy: training.accuracy,
            test_loss: test.loss,
            test_auc: test.auc,
            test_accuracy: test.accuracy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[(&str, f64)]) -> HashMap<String, f64> {
        all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn scores_without_reports_are_unknown() {
        let mut learning = ScoreReports::default();
        learning.add(&values(&[("step", 7.0), ("loss", f64::NAN)]), Duration::from_secs(1), 0);
        assert_eq!(learning.status(), None);
    }

    #[test]
    fn reports_are_weighted_by_records_and_old_ones_are_forgotten() {
        let mut learning = ScoreReports::default();
        let mut say = |second, loss, records| {
            let report = values(&[("loss", loss), ("measured_records", records)]);
            learning.add(&report, Duration::from_secs(second), 0);
            learning.status().unwrap().training.loss.unwrap()
        };
        assert_eq!(say(1, 9.0, 1000.0), 9.0);
        assert_eq!(say(10, 1.0, 300.0), 1.0);
        assert_eq!(say(11, 2.0, 100.0), 1.25);
        assert_eq!(say(13, 2.0, 100.0), 2.0);
    }

    #[test]
    fn test_scores_stay_known() {
        let mut learning = ScoreReports::default();
        learning.add(&values(&[("test_auc", 0.8)]), Duration::ZERO, 0);
        learning.add(&values(&[("loss", 0.5)]), Duration::from_secs(60), 0);
        let status = learning.status().unwrap();
        assert_eq!((status.test.auc, status.test.loss, status.training.loss), (Some(0.8), None, Some(0.5)));
    }

    #[test]
    fn an_evaluation_that_ends_late_does_not_replace_the_test_of_the_final_model() {
        let mut learning = ScoreReports::default();
        let evaluated = |auc| Scores { auc: Some(auc), ..Scores::default() };
        let test_auc = |learning: &ScoreReports| learning.status().unwrap().test.auc;
        learning.evaluated(evaluated(0.6), 0);
        assert_eq!(test_auc(&learning), Some(0.6));
        learning.add(&values(&[("test_auc", 0.8)]), Duration::ZERO, 0);
        learning.evaluated(evaluated(0.7), 0);
        assert_eq!(test_auc(&learning), Some(0.8));
        // The job was rewound after its last batch and trains on.
        learning.evaluated(evaluated(0.65), 5);
        assert_eq!(test_auc(&learning), Some(0.65));
        learning.add(&values(&[("test_auc", 0.81)]), Duration::ZERO, 5);
        assert_eq!(test_auc(&learning), Some(0.81));
    }
}
