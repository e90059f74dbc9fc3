//! Metrics of a model: loss, accuracy and AUC, summed record by record.

mod auc;

pub use auc::Auc;

use crate::kernels::{cross_entropy_of, log_loss_of};
use crate::models::Task;

/// Metrics of the scored records.
#[derive(Debug, Clone, PartialEq)]
pub struct Metrics {
    records: u64,
    loss: f64,
    correct: u64,
    /// Only for binary models.
    auc: Option<Auc>,
}

impl Metrics {
    pub fn new(task: Task) -> Self {
        let auc = match task {
            Task::YesNo => Some(Auc::default()),
            Task::OneOf { .. } => None,
        };
        Self { records: 0, loss: 0.0, correct: 0, auc }
    }

    /// Adds scores, as a model returns them, and their labels.
    ///
    /// # Panics
    ///
    /// When the number of scores is not a multiple of the number of labels.
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

    pub fn records(&self) -> u64 {
        self.records
    }

    /// The mean loss: log loss or cross entropy, in nats.
    pub fn loss(&self) -> Option<f64> {
        (self.records > 0).then(|| self.loss / self.records as f64)
    }

    /// The share of correct predictions: a positive logit for a yes, the highest for a class.
    pub fn accuracy(&self) -> Option<f64> {
        (self.records > 0).then(|| self.correct as f64 / self.records as f64)
    }

    /// The area under the ROC curve; only for binary models, and only if both labels occurred.
    pub fn auc(&self) -> Option<f64> {
        self.auc.as_ref().and_then(Auc::value)
    }
}

/// The index of the highest score; the first of several.
pub(crate) fn highest(scores: &[f32]) -> usize {
    (1..scores.len()).fold(0, |best, at| if scores[at] > scores[best] { at } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_no_records_are_unknown() {
        let mut metrics = Metrics::new(Task::YesNo);
        metrics.add(&[], &[]);
        assert_eq!((metrics.records(), metrics.loss(), metrics.accuracy(), metrics.auc()), (0, None, None, None));
    }

    #[test]
    fn the_split_into_batches_does_not_matter() {
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
