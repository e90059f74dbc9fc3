//! Python tracebacks: found in the output of a program line by line, and reduced to exception and frame.
//!
//! The output comes from the user's program, often from several processes at once. Lines of a traceback share the text
//! before its first word, such as `[rank0]: `; other lines in between are skipped. Memory is bounded.

use std::fmt;

const FIRST_LINE: &str = "Traceback (most recent call last):";
/// The exception of a group is printed behind a margin.
const OF_GROUP: &str = "+ Exception Group ";
/// What Python prints between an exception and the one that was raised because of it.
const CHAINS: [&str; 2] = [
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
];
/// Most lines of a traceback that are kept; the innermost frames are last.
const MAX_LINES: usize = 200;
/// Longer lines are cut, in bytes.
const MAX_LINE: usize = 2 << 10;
/// After so many lines that do not belong to it, a traceback has no end.
const MAX_FOREIGN: usize = 100;
/// Longer messages are cut in a summary, in characters: the frame follows them.
const MAX_MESSAGE: usize = 240;
/// Files of these folders are not the user's.
const LIBRARIES: [&str; 4] = ["/site-packages/", "/dist-packages/", "/lib/python3", "<frozen "];
/// Files of the launchers that start a program's processes in Python.
const LAUNCHERS: [&str; 3] = ["/torch/distributed/run.py", "/torch/distributed/launcher/", "/dlrover/trainer/torch/"];

/// An exception with its frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traceback {
    /// Type and first line of the message.
    pub exception: String,
    /// The innermost last.
    frames: Vec<Frame>,
    lines: Vec<String>,
    /// It was raised while the traceback before it was handled.
    is_chained: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    file: String,
    line: u64,
    function: Option<String>,
}

impl Traceback {
    /// The last traceback in a text.
    pub fn last_in(text: &str) -> Option<Self> {
        let mut scanner = TracebackScanner::default();
        text.lines().filter_map(|line| scanner.push_line(line)).last()
    }

    /// Whether a launcher raised it, and not a program that it started.
    pub fn is_of_launcher(&self) -> bool {
        self.frames.iter().any(|frame| LAUNCHERS.iter().any(|part| frame.file.contains(part)))
    }

    /// Whether the program was asked to end.
    pub fn is_requested(&self) -> bool {
        ["KeyboardInterrupt", "SystemExit"].contains(&self.type_name())
    }

    pub(super) fn is_chained(&self) -> bool {
        self.is_chained
    }

    /// A message with the frame of the user's program that raised the exception.
    pub fn located(&self, message: &str) -> String {
        let mut text = match message.char_indices().nth(MAX_MESSAGE) {
            Some((end, _)) => format!("{}…", &message[..end]),
            None => message.to_owned(),
        };
        let Some(Frame { file, line, function }) = self.frame() else { return text };
        text.push_str(&format!(" (at {file}:{line}"));
        if let Some(function) = function.as_ref().filter(|function| *function != "<module>") {
            text.push_str(&format!(" in {function}"));
        }
        text.push(')');
        text
    }

    /// The traceback as it was printed.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    fn type_name(&self) -> &str {
        self.exception.split(':').next().unwrap_or_default()
    }

    /// The innermost frame in a file of the user; without one, the innermost frame.
    fn frame(&self) -> Option<&Frame> {
        let is_of_user = |frame: &&Frame| !LIBRARIES.iter().any(|part| frame.file.contains(part));
        self.frames.iter().rev().find(is_of_user).or(self.frames.last())
    }
}

/// On one line: the exception, and the frame of the user's program that raised it.
impl fmt::Display for Traceback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.located(&self.exception))
    }
}

/// Finds tracebacks in a stream of lines.
#[derive(Debug, Default)]
pub(super) struct TracebackScanner {
    open: Option<OpenTraceback>,
    /// The last lines announced that the next traceback belongs to the one before.
    chain: bool,
}

#[derive(Debug)]
struct OpenTraceback {
    /// What each of its lines begins with.
    prefix: String,
    frames: Vec<Frame>,
    lines: Vec<String>,
    foreign: usize,
    is_chained: bool,
}

impl TracebackScanner {
    /// Takes the next line; returns the traceback that it completes.
    pub(super) fn push_line(&mut self, line: &str) -> Option<Traceback> {
        let line = cut(line.trim_end());
        if let Some(prefix) = line.strip_suffix(FIRST_LINE) {
            self.begin(prefix.replace(OF_GROUP, "| "), line);
            return None;
        }
        let Some(open) = &mut self.open else {
            self.chain |= CHAINS.iter().any(|words| line.ends_with(words));
            // A file that cannot be parsed has no frames, so there is no first line.
            if let Some(frame) = line.strip_prefix("  ").and_then(frame).filter(|frame| frame.function.is_none()) {
                self.begin(String::new(), line);
                self.open.as_mut()?.frames.push(frame);
            }
            return None;
        };
        let own = line.strip_prefix(&*open.prefix).unwrap_or_default();
        if own.starts_with(' ') {
            open.push(own);
            return None;
        }
        if !is_exception(own) {
            open.foreign += 1;
            if open.foreign > MAX_FOREIGN {
                self.open = None;
            }
            return None;
        }
        let OpenTraceback { frames, mut lines, is_chained, .. } = self.open.take()?;
        lines.push(own.to_owned());
        Some(Traceback { exception: own.to_owned(), frames, lines, is_chained })
    }

    fn begin(&mut self, prefix: String, line: &str) {
        let first = line.strip_prefix(&*prefix).unwrap_or(line).to_owned();
        let is_chained = std::mem::take(&mut self.chain);
        self.open = Some(OpenTraceback { prefix, frames: Vec::new(), lines: vec![first], foreign: 0, is_chained });
    }
}

impl OpenTraceback {
    fn push(&mut self, line: &str) {
        if let Some(frame) = line.strip_prefix("  ").and_then(frame) {
            if self.frames.len() >= MAX_LINES {
                self.frames.remove(1);
            }
            self.frames.push(frame);
        }
        if self.lines.len() >= MAX_LINES {
            self.lines.remove(1);
        }
        self.lines.push(line.to_owned());
    }
}

/// `File "FILE", line N, in FUNCTION`, without the function where a file cannot be parsed.
fn frame(line: &str) -> Option<Frame> {
    let (file, rest) = line.strip_prefix("File \"")?.split_once("\", line ")?;
    let (number, function) = match rest.split_once(", in ") {
        Some((number, function)) => (number, Some(function.to_owned())),
        None => (rest, None),
    };
    Some(Frame { file: file.to_owned(), line: number.parse().ok()?, function })
}

/// The name of a class, alone or before a colon and a message.
fn is_exception(line: &str) -> bool {
    let name = line.split_once(": ").map_or(line, |(name, _)| name).trim_end_matches(':');
    let is_word = |word: &str| {
        !word.starts_with(|c: char| c.is_ascii_digit())
            && !word.is_empty()
            && word.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    // Classes such as `struct.error` are rare, and single words in lower case are common.
    let is_class = last.trim_start_matches('_').starts_with(char::is_uppercase) || (last != name && name != line);
    name.split('.').all(is_word) && is_class
}

fn cut(line: &str) -> &str {
    &line[..line.floor_char_boundary(MAX_LINE)]
}

#[cfg(test)]
mod tests;
