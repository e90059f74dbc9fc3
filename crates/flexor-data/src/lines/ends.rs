//! Where lines end.

/// Finds the end of one line after the other, in pieces of a file as they come.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    quotes: bool,
    /// How much of the line has been looked at.
    seen: usize,
    /// Whether that ends inside a quoted field.
    inside: bool,
    /// Where the last quoted field ended: a quote right behind it means a quote in it.
    closed: Option<usize>,
}

impl Ends {
    /// Of tables, where line breaks may be quoted, or of plain text.
    pub(super) fn new(quotes: bool) -> Self {
        Self { quotes, seen: 0, inside: false, closed: None }
    }

    /// The length of the line with which `bytes` begin, its line feed included; none if it goes on behind them. Then it
    /// is to be asked again with more of the same line.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Option<usize> {
        let length = if self.quotes { self.quoted(bytes) } else { self.plain(bytes) };
        match length {
            Some(_) => *self = Self::new(self.quotes),
            None => self.seen = bytes.len(),
        }
        length
    }

    /// Whether the line looked at so far ends inside a quoted field.
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
