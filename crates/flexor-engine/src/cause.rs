//! Why something was decided, in a word that scripts match and a sentence that people read.

use std::fmt;

use flexor_model::Reason;
use serde::{Deserialize, Serialize};

/// A reason with what it means in this case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The stable word.
    pub reason: Reason,
    /// One sentence about this case.
    pub message: String,
}

impl Cause {
    /// A reason and a sentence about this case.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}
