//! Lines of the summary that a terminal shows whole.

/// No line is wider, as long as its words allow.
const WIDEST: usize = 110;

/// A row: its name, filled to a width, and what is told behind it. What has no room stands below: whole phrases where
/// they are short enough, else words.
pub fn row(name: &str, names: usize, told: &str) -> String {
    let indent = names + 2;
    let mut lines = Lines { room: WIDEST.saturating_sub(indent), all: Vec::new() };
    let words: Vec<&str> = told.split(' ').collect();
    for phrase in words.split_inclusive(|word| word.ends_with([',', ';'])) {
        let whole = phrase.join(" ");
        if width(&whole) <= lines.room {
            lines.add(&whole);
        } else {
            phrase.iter().for_each(|word| lines.add(word));
        }
    }
    let mut text = format!("  {name:<names$}{}\n", lines.all.first().map_or("", String::as_str));
    for line in lines.all.iter().skip(1) {
        text.push_str(&format!("{:indent$}{line}\n", ""));
    }
    text
}

struct Lines {
    room: usize,
    all: Vec<String>,
}

impl Lines {
    /// Puts some words behind the last line, or below it.
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
    fn what_has_no_room_stands_below() {
        assert_eq!(row("time", 6, "1.0s: training 0.9s"), "  time  1.0s: training 0.9s\n");
        let told = "a server with a name, 128 partitions, ".repeat(5);
        let shown = row("servers", 16, told.trim_end());
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(shown.lines().all(|line| line.ends_with(',')), "no phrase is broken: {shown}");
        assert!(shown.lines().all(|line| line.len() <= WIDEST), "{shown}");
        assert!(shown.lines().skip(1).all(|line| line.starts_with(&" ".repeat(18))), "{shown}");
        assert_eq!(shown.split_whitespace().skip(1).collect::<Vec<_>>().join(" "), told.trim_end());
        assert_eq!(row("logs", 6, "in a,b; c"), "  logs  in a,b; c\n");
        let path = "x".repeat(200);
        assert_eq!(
            row("logs", 6, &format!("in {path}")),
            format!("  logs  in\n        {path}\n"),
            "a word stays whole"
        );
    }
}
