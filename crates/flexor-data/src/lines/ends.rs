//! Finds the ends of lines.

/// Finds line ends in the pieces of a file, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    quotes: bool,
    /// The examined part of the current line.
    seen: usize,
    /// Whether the examined part ends inside a quoted field.
    inside: bool,
    /// The end of the last quoted field. A quote right behind it is part of the field.
    closed: Option<usize>,
}

impl Ends {
    /// For tables, where line breaks may be quoted, or for plain text.
    pub(super) fn new(quotes: bool) -> Self {
        Self { quotes, seen: 0, inside: false, closed: None }
    }

    /// The length of the line at the start of `bytes`, including its line feed. `None` if the line continues behind
    /// them: call again with more of the same line.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Option<usize> {
        let length = if self.quotes { self.quoted(bytes) } else { self.plain(bytes) };
        match length {
            Some(_) => *self = Self::new(self.quotes),
            None => self.seen = bytes.len(),
        }
        length
    }

    /// Whether the examined part ends inside a quoted field.
    pub(super) fn is_inside_quotes(&self) -> bool {
        self.inside
    }

    fn plain(&self, bytes: &[u8]) -> Option<usize> {
        memchr::memchr(b'\n', &bytes[self.seen..]).map(|at| self.seen + at + 1)
    }

    fn quoted(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(found) = memchr::memchr2(b'\n', b'"', &bytes[self.seen..]) {
            let at = self.seen + found;
            self.seen = at + 1;
            match (bytes[at], self.inside) {
                (b'\n', false) => return Some(at + 1),
                (b'\n', true) => {}
                (_, true) => {
                    self.inside = false;
                    self.closed = Some(at);
                }
                (_, false) => {
                    let begins_field = at == 0 || bytes[at - 1] == b',';
                    self.inside = begins_field || self.closed.is_some_and(|closed| closed + 1 == at);
                }
            }
        }
        None
    }
}
