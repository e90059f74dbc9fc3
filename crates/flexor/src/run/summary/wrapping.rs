//! Lines of the summary that a terminal shows whole.

/// No line is wider, as long as its words allow.
const WIDEST: usize = 110;
/// However narrow a terminal is, words have so much room.
const LEAST_ROOM: usize = 20;

/// How wide lines may be where a terminal has so many columns, if it is one.
pub fn width_of(columns: Option<usize>) -> usize {
    columns.map_or(WIDEST, |columns| columns.min(WIDEST))
}

/// A row: its name, filled to a width, and what is told behind it. What has no room stands below: whole phrases where
/// they are short enough, else words.
pub fn row(name: &str, names: usize, told: &str, widest: usize) -> String {
    let indent = names + 2;
    let lines = broken(told, widest.saturating_sub(indent));
    let mut text = format!("  {name:<names$}{}\n", lines.first().map_or("", String::as_str));
    for line in lines.iter().skip(1) {
        text.push_str(&format!("{:indent$}{line}\n", ""));
    }
    text
}

/// A sentence that stands for itself. What has no room stands below it, a little further in.
pub fn sentence(told: &str, widest: usize) -> String {
    broken(told, widest.saturating_sub(2)).join("\n  ") + "\n"
}

fn broken(told: &str, room: usize) -> Vec<String> {
    let mut lines = Lines { room: room.max(LEAST_ROOM), all: Vec::new() };
    let words: Vec<&str> = told.split(' ').collect();
    for phrase in words.split_inclusive(|word| word.ends_with([',', ';'])) {
        let whole = phrase.join(" ");
        if width(&whole) <= lines.room {
            lines.add(&whole);
        } else {
            phrase.iter().for_each(|word| lines.add(word));
        }
    }
    lines.all
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
        assert_eq!(row("time", 6, "1.0s: training 0.9s", WIDEST), "  time  1.0s: training 0.9s\n");
        let told = "a server with a name, 128 partitions, ".repeat(5);
        let shown = row("servers", 16, told.trim_end(), WIDEST);
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(shown.lines().all(|line| line.ends_with(',')), "no phrase is broken: {shown}");
        assert!(shown.lines().all(|line| line.len() <= WIDEST), "{shown}");
        assert!(shown.lines().skip(1).all(|line| line.starts_with(&" ".repeat(18))), "{shown}");
        assert_eq!(shown.split_whitespace().skip(1).collect::<Vec<_>>().join(" "), told.trim_end());
        assert_eq!(row("logs", 6, "in a,b; c", WIDEST), "  logs  in a,b; c\n");
        let path = "x".repeat(200);
        assert_eq!(
            row("logs", 6, &format!("in {path}"), WIDEST),
            format!("  logs  in\n        {path}\n"),
            "a word stays whole"
        );
    }
    #[test]
    fn a_narrower_terminal_has_shorter_lines() {
        assert_eq!([None, Some(200), Some(80)].map(width_of), [WIDEST, WIDEST, 80]);
        let told = "734939 in the model, 12 sent again, 0 applied twice, 102494 lost because of something";
        for columns in [40, 60, 80] {
            for shown in [row("updates", 16, told, columns), sentence(told, columns)] {
                assert!(shown.lines().all(|line| line.len() <= columns), "{columns}: {shown}");
                let words: Vec<&str> = shown.split_whitespace().filter(|word| *word != "updates").collect();
                assert_eq!(words.join(" "), told, "no word is broken");
            }
        }
        assert_eq!(sentence("a: it failed; pods started again: 3", 24), "a: it failed;\n  pods started again: 3\n");
        assert!(row("updates", 16, told, 10).lines().count() < 10, "there is always some room");
    }
}
