//! The scores of a job's model that its workers reported last.

use flexor_wire::master::v1 as wire;
use serde::Serialize;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Learning {
    /// On training data, over the last seconds in which workers reported.
    #[serde(flatten)]
    pub training: Scores,
    /// On test data.
    pub test: Scores,
}

/// Scores of a model; none where no worker has reported one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Scores {
    /// The mean.
    pub loss: Option<f64>,
    /// The area under the ROC curve.
    pub auc: Option<f64>,
    /// The share of right predictions.
    pub accuracy: Option<f64>,
}

impl Learning {
    /// The scores after a report of the master. A restarted master reports none until workers have.
    pub(super) fn after(before: Option<Self>, reported: Option<wire::Learning>) -> Option<Self> {
        let Some(reported) = reported else { return before };
        let before = before.unwrap_or_default();
        let training = Scores { loss: reported.loss, auc: reported.auc, accuracy: reported.accuracy };
        let test = Scores { loss: reported.test_loss, auc: reported.test_auc, accuracy: reported.test_accuracy };
        Some(Self { training: training.or(before.training), test: test.or(before.test) })
    }
}

impl Scores {
    /// These, or `others` if none of these is known.
    fn or(self, others: Self) -> Self {
        if self == Self::default() { others } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_one_kind_of_scores_keeps_the_other_kind() {
        let first = wire::Learning { loss: Some(0.5), auc: Some(0.7), ..wire::Learning::default() };
        let before = Learning::after(None, Some(first));
        let test = wire::Learning { test_auc: Some(0.8), ..wire::Learning::default() };
        let after = Learning::after(before, Some(test)).unwrap();
        assert_eq!((after.training.loss, after.training.auc, after.test.auc), (Some(0.5), Some(0.7), Some(0.8)));
        assert_eq!(Learning::after(Some(after), None), Some(after));
    }
}
