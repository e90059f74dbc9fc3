//! What is said about a manifest or a command line: where, what, and what to write instead.

use std::fmt;

use flexor_model::{Reason, Severity};
use serde::Serialize;

/// One thing found in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Error or warning; follows from the reason.
    pub severity: Severity,
    /// The stable word for it.
    pub reason: Reason,
    /// The field it is about: `spec.replicaSpecs.worker.replicas`, or an option such as `--num_workers`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Where it stands; none for what is missing altogether or came from a command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Position>,
}

/// A place in a file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl Finding {
    /// A finding about a field.
    pub fn new(reason: Reason, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: reason.severity(), reason, field: field.into(), message: message.into(), help: None, at: None }
    }

    /// With what to write instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// At a place in the file.
    #[must_use]
    pub fn at(mut self, position: Option<Position>) -> Self {
        self.at = position;
        self
    }

    /// Whether it makes the document unusable.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// A text from outside as it is shown in a message: in backticks, cut to a readable length, on one line.
pub(crate) fn quoted(text: &str) -> String {
    format!("`{}`", shortened(text))
}

/// The same without backticks.
pub(crate) fn shortened(text: &str) -> String {
    const READABLE: usize = 80;
    one_line(text, READABLE)
}

/// At most so many characters of a text, control characters escaped so that they cannot forge other lines.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for c in text.chars().take(most) {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_text_is_short_and_on_one_line() {
        assert_eq!(quoted("4 Gi"), "`4 Gi`");
        assert_eq!(quoted("a\nb\u{1b}[31m"), "`a\\nb\\u{1b}[31m`");
        assert_eq!(quoted(&"ä".repeat(100)), format!("`{}…`", "ä".repeat(80)));
    }
}
