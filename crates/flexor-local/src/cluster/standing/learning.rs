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

impl From<wire::Learning> for Learning {
    fn from(said: wire::Learning) -> Self {
        Self {
            training: Scores { loss: said.loss, auc: said.auc, accuracy: said.accuracy },
            test: Scores { loss: said.test_loss, auc: said.test_auc, accuracy: said.test_accuracy },
        }
    }
}
