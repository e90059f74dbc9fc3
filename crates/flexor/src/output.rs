//! Output of all commands: results go to standard output, as text or as JSON. Everything else goes to standard error.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;

/// Output format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Writes text to standard output, with colours only on a terminal.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has closed the pipe, as `| head` does. That is no failure of the command.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write the output"),
    }
}

/// The columns of the terminal, if standard output is one of known size.
pub fn columns() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Writes bytes to standard output unchanged. Returns false if the reader has closed the pipe.
pub fn raw(bytes: &[u8]) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write the output"),
    }
}

/// An error with its causes. A cause whose text the error already contains is not repeated.
pub fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| {
        match (text.is_empty(), text.contains(&cause)) {
            (true, _) => cause,
            (false, true) => text,
            (false, false) => format!("{text}: {cause}"),
        }
    })
}

/// Escapes control characters of a foreign text, so that it can neither break the line nor control the terminal.
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

/// Writes a line to standard error. Ignores errors, because there is no other place to report them.
pub fn note(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read a.csv: {source}; look again")]
    struct ErrorWithCause {
        source: io::Error,
    }

    #[test]
    fn a_cause_is_not_repeated() {
        let missing = || io::Error::from_raw_os_error(2);
        let text = "cannot read a.csv: No such file or directory (os error 2); look again";
        assert_eq!(with_causes(&ErrorWithCause { source: missing() }.into()), text);
        let wrapped = anyhow::Error::new(ErrorWithCause { source: missing() }).context("--data");
        assert_eq!(with_causes(&wrapped), format!("--data: {text}"));
        let plain = anyhow::Error::new(missing()).context("cannot read a.csv");
        assert_eq!(with_causes(&plain), "cannot read a.csv: No such file or directory (os error 2)");
    }
}
