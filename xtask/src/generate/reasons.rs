//! `docs/reference/reasons.md`, from `flexor_model::Reason`.

use anyhow::Result;
use flexor_model::{Reason, Severity};

use super::Files;
use super::table::{head, table};
use crate::tree::Tree;

pub(super) fn render(_: &Tree) -> Result<Files> {
    let introduction = "Why something was decided or said, as one stable word: it stands in the output of `-o json` \
                        and scripts may match on it. The list is closed and lives in \
                        [`crates/flexor-model/src/reason.rs`](../../crates/flexor-model/src/reason.rs).";
    let rows = Reason::ALL.iter().map(|reason| {
        let severity = match reason.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Notice => "notice",
        };
        vec![format!("`{reason}`"), severity.to_owned(), reason.explanation().to_owned()]
    });
    let table = table(&["reason", "severity", "meaning"], rows);
    let text = format!("{}\n{table}", head("Reasons", introduction));
    Ok(vec![("docs/reference/reasons.md".into(), text)])
}
