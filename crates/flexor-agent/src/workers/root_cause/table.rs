//! The table at the end of a failed run, with the fields that torchrun's has.

use std::borrow::Cow;
use std::fmt;

use super::{FailureReport, WorkerFailure};

/// Longer tracebacks are cut in the middle. The error file has all lines.
const MAX_LINES: usize = 60;
/// Longer lines are cut.
const MAX_COLUMNS: usize = 2000;
const RULE_WIDTH: usize = 64;

impl fmt::Display for FailureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = 1 + self.others.len();
        writeln!(f, "{}", "=".repeat(RULE_WIDTH))?;
        writeln!(f, "{} FAILED ({failed} of {} workers)", cut(&self.command), self.workers)?;
        writeln!(f, "{}", "-".repeat(RULE_WIDTH))?;
        writeln!(f, "Root cause (first failure):")?;
        self.root_cause.describe(f, &self.host)?;
        if !self.others.is_empty() {
            writeln!(f, "{}", "-".repeat(RULE_WIDTH))?;
            writeln!(f, "Other failures:")?;
            for other in &self.others {
                let first_line = other.message.lines().next().unwrap_or_default();
                writeln!(f, "  {:.3}  {}  {}", other.time, other.worker(), cut(first_line))?;
            }
        }
        write!(f, "{}", "=".repeat(RULE_WIDTH))
    }
}

impl WorkerFailure {
    /// The failed rank of the world, or that it was outside every world.
    pub fn location(&self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("local rank {}, outside every world", self.local_rank),
        }
    }

    fn worker(&self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank} (local rank {})", self.local_rank),
            None => format!("no rank (local rank {})", self.local_rank),
        }
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>, host: &str) -> fmt::Result {
        let signal = self.signal.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
        writeln!(f, "  time       : {:.3}", self.time)?;
        writeln!(f, "  host       : {host}")?;
        let rank = self.rank.map_or_else(|| "none yet".to_owned(), |rank| rank.to_string());
        writeln!(f, "  rank       : {rank} (local rank {})", self.local_rank)?;
        writeln!(f, "  exit code  : {} (pid {}{signal})", self.exit_code, self.pid)?;
        if let Some(path) = &self.error_file {
            writeln!(f, "  error file : {}", path.display())?;
        }
        let mut lines = self.message.lines();
        writeln!(f, "  message    : {}", cut(lines.next().unwrap_or_default()))?;
        block(f, lines)?;
        if let Some(traceback) = &self.traceback {
            writeln!(f, "  traceback  :")?;
            block(f, traceback.trim_end().lines())?;
        }
        Ok(())
    }
}

/// Writes indented lines; if there are too many, the first and the last of them.
fn block<'a>(f: &mut fmt::Formatter<'_>, lines: impl Iterator<Item = &'a str>) -> fmt::Result {
    let lines: Vec<_> = lines.collect();
    let omitted = lines.len().saturating_sub(MAX_LINES);
    // The error itself is at the end.
    let head = if omitted > 0 { MAX_LINES / 3 } else { lines.len() };
    for line in &lines[..head] {
        writeln!(f, "    {}", cut(line))?;
    }
    if omitted > 0 {
        writeln!(f, "    ... {omitted} more lines in the error file ...")?;
        for line in &lines[head + omitted..] {
            writeln!(f, "    {}", cut(line))?;
        }
    }
    Ok(())
}

/// Replaces the control characters in a program's text that a terminal would obey: C0 and C1, except tabs and newlines.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_control = |letter: char| letter.is_control() && !matches!(letter, '\t' | '\n');
    if text.contains(is_control) { text.replace(is_control, "\u{fffd}").into() } else { text.into() }
}

fn cut(line: &str) -> Cow<'_, str> {
    printable(line.char_indices().nth(MAX_COLUMNS).map_or(line, |(end, _)| &line[..end]))
}
