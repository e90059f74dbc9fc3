//! Goes through the lines of a part of a file.

use std::io;
use std::ops::ControlFlow;

use super::ends::Ends;
use crate::read_at::ReadAt;

/// No line is longer. A file without a single line feed is not what it was taken for.
const MOST_BYTES: usize = 64 << 20;

/// Which lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// All of them.
    Text,
    /// Those of a table.
    Csv,
}

/// Why lines cannot be had.
#[derive(Debug)]
pub(crate) enum LinesError {
    /// The file cannot be read.
    Io(io::Error),
    /// The line that begins here has no end that could be believed.
    Line {
        /// Where it begins.
        offset: u64,
        /// What is wrong.
        why: &'static str,
    },
}

impl From<io::Error> for LinesError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Hands on the records between two places of a file, each with the place where it begins, until it is told to stop.
/// `piece` bytes are read at once.
pub(super) fn walk(
    source: &dyn ReadAt,
    lines: Lines,
    (start, end): (u64, u64),
    piece: usize,
    sink: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> Result<(), LinesError> {
    let mut ends = Ends::new(lines == Lines::Csv);
    let mut buffer: Vec<u8> = Vec::new();
    // The buffer begins here, with a line.
    let mut offset = start;
    loop {
        let held = buffer.len();
        let more = (end - offset - held as u64).min(piece as u64) as usize;
        buffer.resize(held + more, 0);
        source.read_exact_at(&mut buffer[held..], offset + held as u64)?;
        let mut passed = 0;
        while passed < buffer.len()
            && let Some(length) = ends.next(&buffer[passed..])
        {
            if hand_on(lines, offset + passed as u64, &buffer[passed..passed + length], sink).is_break() {
                return Ok(());
            }
            passed += length;
        }
        buffer.drain(..passed);
        offset += passed as u64;
        if more == 0 {
            break;
        }
        if buffer.len() > MOST_BYTES {
            return Err(LinesError::Line { offset, why: "a line of more than 64 MiB" });
        }
    }
    if ends.is_inside_quotes() {
        return Err(LinesError::Line { offset, why: "a quoted field is not closed, in the line that begins" });
    }
    if !buffer.is_empty() {
        let _ = hand_on(lines, offset, &buffer, sink);
    }
    Ok(())
}

fn hand_on(
    lines: Lines,
    offset: u64,
    line: &[u8],
    sink: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() && lines == Lines::Csv {
        return ControlFlow::Continue(());
    }
    sink(offset, line)
}
