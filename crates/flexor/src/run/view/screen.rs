//! The terminal: draws a picture where the last one was, below what was printed before, and leaves it there at the end.
//!
//! No other screen is taken and nothing of the terminal is changed beyond one write: the cursor is hidden and lines are
//! not wrapped while a picture is written, and are as they were when it is. So there is nothing to put right, however
//! this process ends.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anstream::adapter::strip_str;
use tracing_subscriber::fmt::MakeWriter;
use unicode_width::UnicodeWidthStr;

use super::picture::Size;

/// What a terminal has that does not tell.
const USUAL: (usize, usize) = (80, 24);
const BEGIN: &str = "\x1b[?25l\x1b[?7l";
const END: &str = "\x1b[?7h\x1b[?25h";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// A terminal on which pictures are drawn. Its copies are the same one.
#[derive(Debug, Clone, Default)]
pub struct Screen(Arc<Mutex<Drawn>>);

/// The picture that stands: how wide its lines are. The cursor is at the beginning of the line below it.
#[derive(Debug, Default)]
struct Drawn {
    widths: Vec<usize>,
}

/// Standard error, for what is to be seen above the picture.
pub struct Above(Screen);

impl Screen {
    /// The terminal of this process, where standard output is one that can be drawn on.
    pub fn of_this_process() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        (io::stdout().is_terminal() && !is_dumb).then(Self::default)
    }

    /// The room that there is now.
    pub fn size(&self) -> Size {
        let told = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let told = told.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let (columns, rows) = told.filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(USUAL);
        let colours = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        Size { columns, rows, colours }
    }

    /// Draws a picture in the place of the one that stands.
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

    /// The picture that stands is left where it is, as others have written below it.
    pub fn leave(&self) {
        self.lock().widths.clear();
    }

    /// Takes the picture away, so that something can be written in its place. The next one is drawn below that.
    fn erase(&self) -> io::Result<()> {
        let mut drawn = self.lock();
        if drawn.widths.is_empty() {
            return Ok(());
        }
        let written = format!("{}{CLEAR_BELOW}", drawn.go_up(self.size().columns));
        drawn.widths.clear();
        write(&written)
    }

    fn lock(&self) -> MutexGuard<'_, Drawn> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drawn {
    /// Moves the cursor to the beginning of the picture. A terminal that has become narrower has broken its lines.
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
    type Writer = Above;

    fn make_writer(&'a self) -> Above {
        Above(self.clone())
    }
}

impl Write for Above {
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
    fn lines_that_a_narrower_terminal_has_broken_are_counted_as_they_are_seen() {
        assert_eq!(Drawn::default().go_up(80), "\r");
        let drawn = Drawn { widths: vec![0, 40, 41, 80] };
        assert_eq!(drawn.go_up(80), "\r\x1b[4A");
        assert_eq!(drawn.go_up(40), "\r\x1b[6A");
    }
}
