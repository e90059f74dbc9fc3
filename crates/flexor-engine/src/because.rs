//! Why something was decided, in a word that scripts match and a sentence that people read.

use std::fmt;

use flexor_model::Reason;
use serde::{Deserialize, Serialize};

/// A reason with what it means in this case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Because {
    /// The stable word.
    pub reason: Reason,
    /// One sentence about this case.
    pub detail: String,
}

impl Because {
    /// A reason and a sentence about this case.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.detail)
    }
}
