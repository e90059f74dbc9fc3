//! The table at the end of a failed run, with the fields that torchrun's has.

use std::borrow::Cow;
use std::fmt;

use super::{Failure, FailureReport};

/// More lines of a traceback are left out in its middle; the error file has them all.
const LINES: usize = 60;
/// A longer line of a message is cut.
const COLUMNS: usize = 2000;
const RULE: usize = 64;

impl fmt::Display for FailureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = 1 + self.others.len();
        writeln!(f, "{}", "=".repeat(RULE))?;
        writeln!(f, "{} FAILED ({failed} of {} workers)", cut(&self.command), self.workers)?;
        writeln!(f, "{}", "-".repeat(RULE))?;
        writeln!(f, "Root cause (first failure):")?;
        self.root_cause.describe(f, &self.host)?;
        if !self.others.is_empty() {
            writeln!(f, "{}", "-".repeat(RULE))?;
            writeln!(f, "Other failures:")?;
            for other in &self.others {
                let first_line = other.message.lines().next().unwrap_or_default();
                writeln!(f, "  {:.3}  {}  {}", other.time, other.who(), cut(first_line))?;
            }
        }
        write!(f, "{}", "=".repeat(RULE))
    }
}

impl Failure {
    /// Where it failed: at which rank of the world, or outside every world.
    pub fn place(&self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("local rank {}, outside every world", self.local_rank),
        }
    }

    fn who(&self) -> String {
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

/// Indented lines; where there are too many, the first and the last of them.
fn block<'a>(f: &mut fmt::Formatter<'_>, lines: impl Iterator<Item = &'a str>) -> fmt::Result {
    let lines: Vec<_> = lines.collect();
    let left_out = lines.len().saturating_sub(LINES);
    // The error itself is at the end.
    let head = if left_out > 0 { LINES / 3 } else { lines.len() };
    for line in &lines[..head] {
        writeln!(f, "    {}", cut(line))?;
    }
    if left_out > 0 {
        writeln!(f, "    ... {left_out} more lines in the error file ...")?;
        for line in &lines[head + left_out..] {
            writeln!(f, "    {}", cut(line))?;
        }
    }
    Ok(())
}

/// Text of a program, without what a terminal would obey instead of showing it: controls of C0 and C1 but for tabs and
/// ends of lines.
pub fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |letter: char| letter.is_control() && !matches!(letter, '\t' | '\n');
    if text.contains(obeyed) { text.replace(obeyed, "\u{fffd}").into() } else { text.into() }
}

fn cut(line: &str) -> Cow<'_, str> {
    printable(line.char_indices().nth(COLUMNS).map_or(line, |(end, _)| &line[..end]))
}
