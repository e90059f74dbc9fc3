//! How the job learns, as its workers say of themselves about once a second: loss, AUC and accuracy of what they have
//! trained on since they spoke last, and how the model does on other data. For people and reports.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// What workers said within this time of one another is taken together.
const TOGETHER: Duration = Duration::from_millis(2500);
/// How many of their words are remembered.
const MOST: usize = 4096;

/// What workers have said.
#[derive(Debug, Default)]
pub struct Learning {
    told: VecDeque<Told>,
    test: Scores,
}

/// How well the job does; what nobody has said is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LearningStatus {
    /// On what it is trained on: the means of all workers, over the last seconds in which any spoke.
    #[serde(flatten)]
    pub training: Scores,
    /// On other data.
    pub test: Scores,
}

/// Measures of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Scores {
    /// The mean loss.
    pub loss: Option<f64>,
    /// The area under the ROC curve.
    pub auc: Option<f64>,
    /// The share that was right.
    pub accuracy: Option<f64>,
}

#[derive(Debug)]
struct Told {
    at: Duration,
    /// How much it weighs.
    records: f64,
    scores: Scores,
}

impl Learning {
    /// Takes what a worker says; numbers that are about something else are left alone.
    pub fn take(&mut self, values: &HashMap<String, f64>, now: Duration) {
        let value = |name: &str| values.get(name).copied().filter(|value| value.is_finite());
        let scores = Scores { loss: value("loss"), auc: value("auc"), accuracy: value("accuracy") };
        if scores.loss.is_some() {
            let records = value("measured_records").filter(|records| *records > 0.0).unwrap_or(1.0);
            self.told.push_back(Told { at: now, records, scores });
        }
        while self.told.front().is_some_and(|first| first.at + TOGETHER < now) && self.told.len() > 1
            || self.told.len() > MOST
        {
            self.told.pop_front();
        }
        let test = Scores { loss: value("test_loss"), auc: value("test_auc"), accuracy: value("test_accuracy") };
        if test != Scores::default() {
            self.test = test;
        }
    }

    /// How well the model does on other data.
    pub fn measured(&mut self, test: Scores) {
        self.test = test;
    }

    /// How well it does; nothing where no worker has said anything.
    pub fn status(&self) -> Option<LearningStatus> {
        let status = LearningStatus { training: self.training(), test: self.test };
        (status != LearningStatus::default()).then_some(status)
    }

    fn training(&self) -> Scores {
        let Some(newest) = self.told.back() else { return Scores::default() };
        let lately = || self.told.iter().filter(|told| told.at + TOGETHER >= newest.at);
        let mean = |score: fn(&Scores) -> Option<f64>| {
            let known = || lately().filter_map(|told| Some((told.records, score(&told.scores)?)));
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

impl From<LearningStatus> for wire::Learning {
    fn from(LearningStatus { training, test }: LearningStatus) -> Self {
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
    fn what_nobody_has_said_is_not_known() {
        let mut learning = Learning::default();
        learning.take(&values(&[("step", 7.0), ("loss", f64::NAN)]), Duration::from_secs(1));
        assert_eq!(learning.status(), None);
    }

    #[test]
    fn workers_count_by_their_records_and_the_dead_are_forgotten() {
        let mut learning = Learning::default();
        let mut say = |second, loss, records| {
            let said = values(&[("loss", loss), ("measured_records", records)]);
            learning.take(&said, Duration::from_secs(second));
            learning.status().unwrap().training.loss.unwrap()
        };
        assert_eq!(say(1, 9.0, 1000.0), 9.0);
        assert_eq!(say(10, 1.0, 300.0), 1.0);
        assert_eq!(say(11, 2.0, 100.0), 1.25);
        assert_eq!(say(13, 2.0, 100.0), 2.0);
    }

    #[test]
    fn how_it_does_on_other_data_stays_known() {
        let mut learning = Learning::default();
        learning.take(&values(&[("test_auc", 0.8)]), Duration::ZERO);
        learning.take(&values(&[("loss", 0.5)]), Duration::from_secs(60));
        let status = learning.status().unwrap();
        assert_eq!((status.test.auc, status.test.loss, status.training.loss), (Some(0.8), None, Some(0.5)));
    }
}
