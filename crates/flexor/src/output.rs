//! Where results go: to standard output, as text or as JSON. What is not a result goes to standard error.

use std::io::{self, Write};

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Writes text to standard output, with colours only where they are seen.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has seen enough, as with `| head`; that changes nothing about the result.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("the output could not be written"),
    }
}

/// Writes a value to standard output as indented JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes a line to standard error. Nobody can be told that this failed.
pub fn note(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}
