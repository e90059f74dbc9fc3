//! Splits the output of a program into lines for the console, each with its prefix.
//!
//! Only whole lines are written, so that lines of different programs do not mix. A line that is too long is written in
//! pieces, so that memory is bounded. A carriage return ends a line too, as in torchrun: a progress bar is many lines on
//! the console, and one line in the log file, which has the program's own bytes.

use std::io::{self, Write};

/// Longer lines are cut, in bytes.
const MAX_LINE: usize = 8 << 10;

/// The console's view of one stream.
#[derive(Debug)]
pub(super) struct ConsoleLines {
    prefix: Vec<u8>,
    /// The bytes since the last end of a line; fewer than [`MAX_LINE`].
    partial: Vec<u8>,
    /// The last byte was a carriage return. A newline that follows belongs to it.
    after_return: bool,
}

impl ConsoleLines {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix: prefix.into_bytes(), partial: Vec::new(), after_return: false }
    }

    /// Writes the lines that these bytes complete.
    pub(super) fn push(&mut self, mut bytes: &[u8], console: &mut impl Write) -> io::Result<()> {
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while !bytes.is_empty() {
            let room = MAX_LINE - self.partial.len();
            let end = bytes.iter().take(room).position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(room.min(bytes.len())));
            if end.is_none() && piece.len() < room {
                self.partial.extend_from_slice(piece);
                return Ok(());
            }
            self.write(piece, console)?;
            bytes = match (end, rest) {
                (None, rest) => rest,
                (Some(_), [b'\r', b'\n', rest @ ..]) => rest,
                (Some(_), [ending, rest @ ..]) => {
                    self.after_return = *ending == b'\r' && rest.is_empty();
                    rest
                }
                (Some(_), []) => rest,
            };
        }
        Ok(())
    }

    /// Writes the last line, if the stream did not end with the end of a line.
    pub(super) fn finish(&mut self, console: &mut impl Write) -> io::Result<()> {
        if self.partial.is_empty() { Ok(()) } else { self.write(b"", console) }
    }

    /// Writes the partial line together with its last `piece`.
    fn write(&mut self, piece: &[u8], console: &mut impl Write) -> io::Result<()> {
        let written =
            [&self.prefix, &self.partial, piece, b"\n"].into_iter().try_for_each(|part| console.write_all(part));
        self.partial.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(pieces: &[&[u8]]) -> String {
        let (mut lines, mut console) = (ConsoleLines::new("[w0]:".to_owned()), Vec::new());
        for piece in pieces {
            lines.push(piece, &mut console).unwrap();
            assert!(lines.partial.capacity() <= 2 * MAX_LINE);
        }
        lines.finish(&mut console).unwrap();
        String::from_utf8_lossy(&console).into_owned()
    }

    #[test]
    fn each_line_has_the_prefix_once() {
        assert_eq!(written(&[b"one\ntw", b"o", b"\n\nthree"]), "[w0]:one\n[w0]:two\n[w0]:\n[w0]:three\n");
        assert_eq!(written(&[]), "");
        assert_eq!(written(&[b"\n"]), "[w0]:\n");
    }

    #[test]
    fn a_carriage_return_ends_a_line_once() {
        assert_eq!(
            written(&[b"10%\r20%\r\n30%\r", b"\n40%\r", b"x\n"]),
            "[w0]:10%\n[w0]:20%\n[w0]:30%\n[w0]:40%\n[w0]:x\n"
        );
    }

    #[test]
    fn a_long_line_is_cut() {
        let long = "x".repeat(2 * MAX_LINE + 5);
        let full = format!("[w0]:{}\n", "x".repeat(MAX_LINE));
        assert_eq!(written(&[long.as_bytes(), b"y\nz\n"]), format!("{full}{full}[w0]:xxxxxy\n[w0]:z\n"));
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_the_bytes_are_split(text in "[ab\r\n]{0,60}", cuts in proptest::collection::vec(0usize..60, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            let expected = text.replace("\r\n", "\n").replace('\r', "\n");
            let expected: String = expected.split_inclusive('\n').map(|line| format!("[w0]:{}\n", line.trim_end())).collect();
            prop_assert_eq!(written(&pieces), expected);
        }
    }
}
