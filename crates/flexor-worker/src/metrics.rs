//! How good a model is: loss, accuracy and AUC, added up record by record.

mod auc;

pub use auc::Auc;

use crate::kernels::{cross_entropy_of, log_loss_of};
use crate::models::Task;

/// What is known of the records that were scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    records: u64,
    loss: f64,
    correct: u64,
    /// Only of yes and no.
    auc: Option<Auc>,
}

impl Metrics {
    /// Nothing was scored yet.
    pub fn new(task: Task) -> Self {
        let auc = match task {
            Task::YesNo => Some(Auc::default()),
            Task::OneOf { .. } => None,
        };
        Self { records: 0, loss: 0.0, correct: 0, auc }
    }

    /// Takes in the scores of records, as a model gives them, and their labels.
    ///
    /// # Panics
    ///
    /// When there are not as many scores for each label as the task has.
    pub fn add(&mut self, scores: &[f32], labels: &[u32]) {
        let Some(width) = scores.len().checked_div(labels.len()) else { return };
        assert_eq!(scores.len(), width * labels.len(), "every record has as many scores");
        for (scores, label) in scores.chunks_exact(width.max(1)).zip(labels) {
            match &mut self.auc {
                Some(auc) => {
                    let (score, label) = (scores[0], *label != 0);
                    auc.add(score, label);
                    self.loss += log_loss_of(score, label);
                    self.correct += u64::from((score > 0.0) == label);
                }
                None => {
                    let label = *label as usize;
                    self.loss += cross_entropy_of(scores, label);
                    self.correct += u64::from(highest(scores) == label);
                }
            }
        }
        self.records += labels.len() as u64;
    }

    /// How many records were scored.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The mean loss: log loss or cross entropy, in nats.
    pub fn loss(&self) -> Option<f64> {
        (self.records > 0).then(|| self.loss / self.records as f64)
    }

    /// Which part of the records was scored rightly: a positive logit for a yes, the highest for a class.
    pub fn accuracy(&self) -> Option<f64> {
        (self.records > 0).then(|| self.correct as f64 / self.records as f64)
    }

    /// The area under the ROC curve; only of yes and no, and only where both occurred.
    pub fn auc(&self) -> Option<f64> {
        self.auc.as_ref().and_then(Auc::value)
    }
}

/// The first of the highest scores.
pub(crate) fn highest(scores: &[f32]) -> usize {
    (1..scores.len()).fold(0, |best, at| if scores[at] > scores[best] { at } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_known_of_no_records() {
        let mut metrics = Metrics::new(Task::YesNo);
        metrics.add(&[], &[]);
        assert_eq!((metrics.records(), metrics.loss(), metrics.accuracy(), metrics.auc()), (0, None, None, None));
    }

    #[test]
    fn how_records_come_makes_no_difference() {
        let (scores, labels) = ([0.5, -1.0, 2.0, 0.25, -0.5, 3.0], [1, 0, 0, 1, 1, 1]);
        let (mut one, mut two) = (Metrics::new(Task::YesNo), Metrics::new(Task::YesNo));
        one.add(&scores, &labels);
        two.add(&scores[..2], &labels[..2]);
        two.add(&scores[2..], &labels[2..]);
        assert_eq!(two, one);
        assert_eq!(one.accuracy(), Some(4.0 / 6.0));
    }

    #[test]
    fn classes_have_loss_and_accuracy_but_no_auc() {
        let mut metrics = Metrics::new(Task::OneOf { classes: 3 });
        metrics.add(&[0.0, 0.0, 0.0, 1.0, 5.0, 1.0], &[0, 1]);
        assert_eq!((metrics.accuracy(), metrics.auc()), (Some(1.0), None));
        let second = (2.0 * (-4.0_f64).exp() + 1.0).ln();
        assert!((metrics.loss().unwrap() - (3.0_f64.ln() + second) / 2.0).abs() < 1e-9);
    }
}
