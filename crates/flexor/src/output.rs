//! Where results go: to standard output, as text or as JSON. What is not a result goes to standard error.

use std::io::{self, IsTerminal, Write};

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

/// How many columns the terminal has that standard output is, where it is one and says so.
pub fn columns() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Writes what a program has printed to standard output, as it is. Whether somebody still reads.
pub fn raw(bytes: &[u8]) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("the output could not be written"),
    }
}

/// An error with what has caused it. A cause that the error tells itself is not told again.
pub fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        match (told.is_empty(), told.contains(&cause)) {
            (true, _) => cause,
            (false, true) => told,
            (false, false) => format!("{told}: {cause}"),
        }
    })
}

/// A text from outside as it may be shown: it can neither break the line nor steer the terminal.
pub fn on_one_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    })
}

/// Writes a value to standard output as indented JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes a line to standard error. Nobody can be told that this failed.
pub fn note(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read a.csv: {source}; look again")]
    struct Telling {
        source: io::Error,
    }

    #[test]
    fn a_cause_is_told_once() {
        let missing = || io::Error::from_raw_os_error(2);
        let told = "cannot read a.csv: No such file or directory (os error 2); look again";
        assert_eq!(with_causes(&Telling { source: missing() }.into()), told);
        let behind = anyhow::Error::new(Telling { source: missing() }).context("--data");
        assert_eq!(with_causes(&behind), format!("--data: {told}"));
        let silent = anyhow::Error::new(missing()).context("cannot read a.csv");
        assert_eq!(with_causes(&silent), "cannot read a.csv: No such file or directory (os error 2)");
    }
}
