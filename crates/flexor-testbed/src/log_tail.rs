//! The last lines of a log, for error messages.

/// The last `count` lines of `text`.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_is_shown_in_full_and_a_long_one_from_its_end() {
        assert_eq!(last_lines("a\nb\n", 5), "a\nb");
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("", 2), "");
    }
}
