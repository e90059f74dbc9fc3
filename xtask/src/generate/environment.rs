//! `docs/reference/environment.md`, from `flexor_model::env`.

use anyhow::Result;

use super::Files;
use super::table::{head, table};
use crate::tree::Tree;

pub(super) fn render(_: &Tree) -> Result<Files> {
    let introduction = "Variables that Flexor and its test tools read. They are declared in \
                        [`crates/flexor-model/src/env.rs`](../../crates/flexor-model/src/env.rs).";
    let rows = flexor_model::env::ALL.iter().map(|variable| {
        let name = format!("`{}`", variable.name);
        vec![name, variable.read_by.to_owned(), variable.default.to_owned(), variable.meaning.to_owned()]
    });
    let table = table(&["variable", "read by", "when not set", "meaning"], rows);
    let text = format!("{}\n{table}", head("Environment variables", introduction));
    Ok(vec![("docs/reference/environment.md".into(), text)])
}
