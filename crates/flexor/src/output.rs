//! Where results go: to standard output, as text or as JSON.

use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;

/// The form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Writes text to standard output, coloured only where it is seen.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a value to standard output as indented JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}
