//! Counts over all files, for the last line, for `.summary` of the JSON output, and for the exit code.

use flexor_dialects::manifest::Verdict;
use serde::Serialize;

use super::FileReport;

/// Part of the documented JSON output, so its names are stable.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub accepted: usize,
    pub refused: usize,
    /// Documents of other kinds.
    pub skipped: usize,
    /// Files and folders that could not be read, or that are not text.
    pub unreadable: usize,
    /// Files without a document.
    pub empty: usize,
    /// Warnings in all documents.
    pub warnings: usize,
}

impl Summary {
    pub fn of(files: &[FileReport]) -> Self {
        let mut summary = Self::default();
        for file in files {
            let Ok(documents) = &file.contents else {
                summary.unreadable += 1;
                continue;
            };
            summary.empty += usize::from(documents.is_empty());
            for document in documents {
                match document.verdict {
                    Verdict::Skipped => summary.skipped += 1,
                    Verdict::Refused { .. } => summary.refused += 1,
                    Verdict::Accepted { .. } => summary.accepted += 1,
                }
                summary.warnings += document.findings().iter().filter(|finding| !finding.is_error()).count();
            }
        }
        summary
    }

    pub fn has_failures(&self) -> bool {
        self.refused + self.unreadable > 0
    }
}
