//! Measurements of a job's model while it is trained, as its master counts them.

use flexor_wire::master::v1 as wire;
use serde::Serialize;

/// What came of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluations {
    /// How many were made.
    pub done: u64,
    /// After how many records the last one was made.
    pub records: u64,
    /// The checkpoint it was made on, where there was no room to keep the model as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    /// How many could not be made.
    pub skipped: u64,
    /// Why the last of these could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_skipped: Option<String>,
}

impl From<wire::Evaluations> for Evaluations {
    fn from(said: wire::Evaluations) -> Self {
        let wire::Evaluations { done, records, checkpoint, skipped, why_skipped } = said;
        Self { done, records, checkpoint, skipped, why_skipped: Some(why_skipped).filter(|why| !why.is_empty()) }
    }
}
