//! What is true of data that was made up: the mark that no model passes.

use std::io::Write;

use serde::Serialize;

use super::{GenerateError, Plan};

/// What `NAME.truth.json` says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Truth {
    /// What has made the data.
    pub generator: &'static str,
    /// From which seed.
    pub seed: u64,
    /// The best AUC that any model can have on what it is tested with (on all data, where there is no test file).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_auc: Option<f64>,
    /// The best accuracy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_accuracy: Option<f64>,
    /// The files.
    pub files: Vec<TruthOfFile>,
}

/// What is true of one file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TruthOfFile {
    /// Its name.
    pub file: String,
    /// How many records it has.
    pub records: u64,
    /// How many of them have the label 1, where there are two labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positives: Option<u64>,
    /// The AUC of the true probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_auc: Option<f64>,
}

impl Truth {
    /// Writes it beside the data.
    pub(super) fn write(&self, plan: &Plan) -> Result<(), GenerateError> {
        let path = plan.truth();
        let mut output = plan.create(&path)?;
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other);
        let written = text.and_then(|text| writeln!(output, "{text}"));
        written.map_err(|error| GenerateError::Write { path, source: error.into() })?;
        Ok(output.commit()?)
    }
}
