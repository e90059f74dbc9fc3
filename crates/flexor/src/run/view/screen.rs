//! Draws pictures on the terminal: each replaces the last one, below the earlier output. The last one stays.
//!
//! It does not use the alternate screen. Each drawing hides the cursor and disables wrapping, and restores both at its end.
//! Nothing has to be restored when this process is killed.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anstream::adapter::strip_str;
use tracing_subscriber::fmt::MakeWriter;
use unicode_width::UnicodeWidthStr;

use super::picture::Size;

/// Columns and rows of a terminal of unknown size.
const DEFAULT_SIZE: (usize, usize) = (80, 24);
const BEGIN: &str = "\x1b[?25l\x1b[?7l";
const END: &str = "\x1b[?7h\x1b[?25h";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// The terminal. Clones share the same state.
#[derive(Debug, Clone, Default)]
pub struct Screen(Arc<Mutex<DrawnPicture>>);

/// The picture on the screen. The cursor is at the beginning of the line below it.
#[derive(Debug, Default)]
struct DrawnPicture {
    /// Columns of each line.
    widths: Vec<usize>,
}

/// Writes to standard error, in the place of the picture; the next one is drawn below. What is written ends with a line
/// break.
pub struct LogWriter(Screen);

impl Screen {
    /// The terminal of this process, if standard output is one and supports cursor movement.
    pub fn of_this_process() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        (io::stdout().is_terminal() && !is_dumb).then(Self::default)
    }

    /// The current size of the terminal.
    pub fn size(&self) -> Size {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let (columns, rows) = size.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(DEFAULT_SIZE);
        let colours = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        Size { columns, rows, colours }
    }

    /// Draws a picture in the place of the last one. Its lines fit into the columns, and are fewer than the rows.
    pub fn draw(&self, lines: &[String], columns: usize) -> io::Result<()> {
        let mut drawn = self.lock();
        let mut written = format!("{BEGIN}{}", drawn.go_up(columns));
        for line in lines {
            written.push_str(&format!("{line}{CLEAR_LINE}\n"));
        }
        written.push_str(&format!("{CLEAR_BELOW}{END}"));
        drawn.widths = lines.iter().map(|line| strip_str(line).to_string().width()).collect();
        write(&written)
    }

    /// Leaves the last picture where it is. The next one is drawn below it.
    pub fn leave(&self) {
        self.lock().widths.clear();
    }

    /// Erases the picture, to write something in its place. The next picture is drawn below that.
    fn erase(&self) -> io::Result<()> {
        let mut drawn = self.lock();
        if drawn.widths.is_empty() {
            return Ok(());
        }
        let written = format!("{}{CLEAR_BELOW}", drawn.go_up(self.size().columns));
        drawn.widths.clear();
        write(&written)
    }

    fn lock(&self) -> MutexGuard<'_, DrawnPicture> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DrawnPicture {
    /// Escape sequence that moves the cursor to the beginning of the picture. A terminal
    /// that has become narrower since has wrapped the lines.
    fn go_up(&self, columns: usize) -> String {
        let rows: usize = self.widths.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        if rows == 0 { "\r".to_owned() } else { format!("\r\x1b[{rows}A") }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = LogWriter;

    fn make_writer(&'a self) -> LogWriter {
        LogWriter(self.clone())
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if io::stderr().is_terminal() {
            self.0.erase()?;
        }
        io::stderr().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_narrower_terminal_has_wrapped_count_several_rows() {
        assert_eq!(DrawnPicture::default().go_up(80), "\r");
        let drawn = DrawnPicture { widths: vec![0, 40, 41, 80] };
        assert_eq!(drawn.go_up(80), "\r\x1b[4A");
        assert_eq!(drawn.go_up(40), "\r\x1b[6A");
    }
}
