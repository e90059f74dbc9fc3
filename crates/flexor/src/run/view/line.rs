//! One line of the picture: pieces of text with colours, cut to the width of the terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::on_one_line;

/// Style of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Plain,
    Bold,
    Dim,
    /// Green.
    Good,
    /// Yellow.
    Busy,
    /// Red.
    Bad,
}

#[derive(Debug, Default)]
pub struct Line {
    pieces: Vec<(Paint, String)>,
}

impl Line {
    /// A line that starts with a piece of text.
    pub fn of(paint: Paint, text: &str) -> Self {
        Self::default().then(paint, text)
    }

    /// Appends a piece of text.
    pub fn then(mut self, paint: Paint, text: &str) -> Self {
        self.pieces.push((paint, on_one_line(text)));
        self
    }

    /// Width in columns.
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.width()).sum()
    }

    /// The line for the terminal, cut to a number of columns.
    pub fn text(&self, columns: usize, colours: bool) -> String {
        let mut room = columns;
        // Reserves a column for the ellipsis.
        let is_cut = self.width() > columns;
        room -= usize::from(is_cut && room > 0);
        let mut written = String::new();
        for (paint, text) in &self.pieces {
            let (text, fits) = cut(text, room);
            room -= text.width();
            match paint.code().filter(|_| colours && !text.is_empty()) {
                Some(code) => written.push_str(&format!("\x1b[{code}m{text}\x1b[0m")),
                None => written.push_str(text),
            }
            if !fits {
                break;
            }
        }
        if is_cut && columns > 0 {
            written.push('…');
        }
        if colours { written } else { written.trim_end().to_owned() }
    }
}

impl Paint {
    fn code(self) -> Option<&'static str> {
        match self {
            Paint::Plain => None,
            Paint::Bold => Some("1"),
            Paint::Dim => Some("2"),
            Paint::Good => Some("32"),
            Paint::Busy => Some("33"),
            Paint::Bad => Some("31"),
        }
    }
}

/// The beginning of a text that fits into a number of columns, and whether that is all of it.
fn cut(text: &str, columns: usize) -> (&str, bool) {
    let mut taken = 0;
    for (at, c) in text.char_indices() {
        taken += c.width().unwrap_or(0);
        if taken > columns {
            return (&text[..at], false);
        }
    }
    (text, true)
}

/// A text in a cell of a table: cut or padded to a number of columns.
pub fn cell(text: &str, columns: usize) -> String {
    let text = on_one_line(text);
    let shown = match text.width() <= columns {
        true => text,
        false => format!("{}…", cut(&text, columns.saturating_sub(1)).0),
    };
    let padding = " ".repeat(columns.saturating_sub(shown.width()));
    shown + &padding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_never_takes_more_columns_than_there_are() {
        let line = Line::of(Paint::Bold, "名前 name").then(Paint::Bad, "\u{1b}[2J and\nmore");
        for columns in 0..40 {
            let plain = line.text(columns, false);
            assert!(plain.width() <= columns, "{columns}: {plain:?}");
            assert!(!plain.contains(['\n', '\u{1b}']), "{plain:?}");
        }
        assert_eq!((line.text(5, false), line.text(4, false)), ("名前…".into(), "名…".into()));
        assert_eq!(Line::of(Paint::Good, "abc").then(Paint::Plain, "de").text(4, true), "\u{1b}[32mabc\u{1b}[0m…");
    }

    #[test]
    fn cells_are_cut_or_padded() {
        assert_eq!((cell("ab", 4), cell("abcdef", 4), cell("", 1)), ("ab  ".into(), "abc…".into(), " ".into()));
    }
}
