//! How well a job's model does, as its workers have said last.

use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// How well the model does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Learning {
    /// On what it is trained on, over the last seconds in which workers spoke.
    #[serde(flatten)]
    pub training: Scores,
    /// On other data.
    pub test: Scores,
}

/// Measures of a model; what nobody has said is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Scores {
    /// The mean loss.
    pub loss: Option<f64>,
    /// The area under the ROC curve.
    pub auc: Option<f64>,
    /// The share that was right.
    pub accuracy: Option<f64>,
}

impl Learning {
    /// What a master says now, after what it said before: one that was started again has yet to hear of it.
    pub(super) fn after(before: Option<Self>, said: Option<wire::Learning>) -> Option<Self> {
        let Some(said) = said else { return before };
        let before = before.unwrap_or_default();
        let training = Scores { loss: said.loss, auc: said.auc, accuracy: said.accuracy };
        let test = Scores { loss: said.test_loss, auc: said.test_auc, accuracy: said.test_accuracy };
        Some(Self { training: training.or(before.training), test: test.or(before.test) })
    }
}

impl Scores {
    /// These, or others where nothing is known.
    fn or(self, others: Self) -> Self {
        if self == Self::default() { others } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_hears_of_one_thing_again_makes_nobody_forget_the_other() {
        let first = wire::Learning { loss: Some(0.5), auc: Some(0.7), ..wire::Learning::default() };
        let before = Learning::after(None, Some(first));
        let test = wire::Learning { test_auc: Some(0.8), ..wire::Learning::default() };
        let after = Learning::after(before, Some(test)).unwrap();
        assert_eq!((after.training.loss, after.training.auc, after.test.auc), (Some(0.5), Some(0.7), Some(0.8)));
        assert_eq!(Learning::after(Some(after), None), Some(after));
    }
}
