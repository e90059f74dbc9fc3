//! Visits the lines of a part of a file.

use std::io;
use std::ops::ControlFlow;

use super::ends::Ends;
use crate::read_at::ReadAt;

/// The longest line. A file without line feeds is probably no file of lines.
const MOST_BYTES: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    Text,
    Csv,
}

/// Why lines cannot be read.
#[derive(Debug)]
pub(crate) enum LinesError {
    Io(io::Error),
    /// The line is too long, or a quote is not closed.
    Line {
        /// The line's first byte.
        offset: u64,
        why: &'static str,
    },
}

impl From<io::Error> for LinesError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Passes the records of a part of a file to `sink`, each with its offset, until `sink` breaks. Reads `piece` bytes at
/// once.
pub(super) fn walk(
    source: &dyn ReadAt,
    lines: Lines,
    (start, end): (u64, u64),
    piece: usize,
    sink: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> Result<(), LinesError> {
    let mut ends = Ends::new(lines == Lines::Csv);
    let mut buffer: Vec<u8> = Vec::new();
    // The offset of the buffer, which begins with a line.
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
            if pass_on(lines, offset + passed as u64, &buffer[passed..passed + length], sink).is_break() {
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
        let _ = pass_on(lines, offset, &buffer, sink);
    }
    Ok(())
}

fn pass_on(
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
