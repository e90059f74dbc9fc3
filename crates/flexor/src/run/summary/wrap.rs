//! Wraps the lines of the summary to the width of the terminal.

/// Largest width of a line, unless a single word is longer.
const WIDEST: usize = 110;
/// Least width for text, however narrow the terminal is.
const LEAST_ROOM: usize = 20;

/// The width of lines for a terminal with this number of columns, or without a terminal.
pub fn width_of(columns: Option<usize>) -> usize {
    columns.map_or(WIDEST, |columns| columns.min(WIDEST))
}

/// A row: its name, padded to `names` columns, and a text. Wraps between phrases, and within a phrase only if it is too
/// long for a line.
pub fn row(name: &str, names: usize, value: &str, widest: usize) -> String {
    let indent = names + 2;
    let lines = wrap(value, widest.saturating_sub(indent));
    let mut text = format!("  {name:<names$}{}\n", lines.first().map_or("", String::as_str));
    for line in lines.iter().skip(1) {
        text.push_str(&format!("{:indent$}{line}\n", ""));
    }
    text
}

/// A sentence without a name. Further lines are indented.
pub fn sentence(text: &str, widest: usize) -> String {
    wrap(text, widest.saturating_sub(2)).join("\n  ") + "\n"
}

fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = WrappedLines { room: room.max(LEAST_ROOM), all: Vec::new() };
    let words: Vec<&str> = text.split(' ').collect();
    for phrase in words.split_inclusive(|word| word.ends_with([',', ';'])) {
        let joined = phrase.join(" ");
        if width(&joined) <= lines.room {
            lines.add(&joined);
        } else {
            phrase.iter().for_each(|word| lines.add(word));
        }
    }
    lines.all
}

struct WrappedLines {
    room: usize,
    all: Vec<String>,
}

impl WrappedLines {
    /// Appends words to the last line, or to a new one.
    fn add(&mut self, words: &str) {
        match self.all.last_mut() {
            Some(line) if width(line) + 1 + width(words) <= self.room => {
                line.push(' ');
                line.push_str(words);
            }
            Some(_) | None => self.all.push(words.to_owned()),
        }
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_wrap_between_phrases() {
        assert_eq!(row("time", 6, "1.0s: training 0.9s", WIDEST), "  time  1.0s: training 0.9s\n");
        let value = "a server with a name, 128 partitions, ".repeat(5);
        let shown = row("servers", 16, value.trim_end(), WIDEST);
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(shown.lines().all(|line| line.ends_with(',')), "no phrase is broken: {shown}");
        assert!(shown.lines().all(|line| line.len() <= WIDEST), "{shown}");
        assert!(shown.lines().skip(1).all(|line| line.starts_with(&" ".repeat(18))), "{shown}");
        assert_eq!(shown.split_whitespace().skip(1).collect::<Vec<_>>().join(" "), value.trim_end());
        assert_eq!(row("logs", 6, "in a,b; c", WIDEST), "  logs  in a,b; c\n");
        let path = "x".repeat(200);
        assert_eq!(
            row("logs", 6, &format!("in {path}"), WIDEST),
            format!("  logs  in\n        {path}\n"),
            "words are not broken"
        );
    }

    #[test]
    fn a_narrower_terminal_has_shorter_lines() {
        assert_eq!([None, Some(200), Some(80)].map(width_of), [WIDEST, WIDEST, 80]);
        let text = "734939 applied, 12 sent again, 0 applied twice, 102494 lost because of something";
        for columns in [40, 60, 80] {
            for shown in [row("updates", 16, text, columns), sentence(text, columns)] {
                assert!(shown.lines().all(|line| line.len() <= columns), "{columns}: {shown}");
                let words: Vec<&str> = shown.split_whitespace().filter(|word| *word != "updates").collect();
                assert_eq!(words.join(" "), text, "no word is broken");
            }
        }
        assert_eq!(sentence("a: it failed; pods started again: 3", 24), "a: it failed;\n  pods started again: 3\n");
        assert!(row("updates", 16, text, 10).lines().count() < 10, "text has a least width");
    }
}
