//! The part in which two texts differ, short enough for a test's output.

/// At most this many lines of either side are shown.
const SHOWN: usize = 10;

/// The lines between the common beginning and the common end: `-` is the current text, `+` the wanted one.
pub(super) fn shown(current: &str, wanted: &str) -> String {
    let (current, wanted): (Vec<_>, Vec<_>) = (current.lines().collect(), wanted.lines().collect());
    let start = current.iter().zip(&wanted).take_while(|(a, b)| a == b).count();
    let (current, wanted) = (&current[start..], &wanted[start..]);
    let end = current.iter().rev().zip(wanted.iter().rev()).take_while(|(a, b)| a == b).count();
    let removed = side('-', &current[..current.len() - end]);
    let added = side('+', &wanted[..wanted.len() - end]);
    let lines = std::iter::once(format!("  line {}", start + 1)).chain(removed).chain(added);
    lines.collect::<Vec<_>>().join("\n")
}

fn side(mark: char, lines: &[&str]) -> Vec<String> {
    let more = lines.len().saturating_sub(SHOWN);
    let shown = lines.iter().take(SHOWN).map(|line| format!("  {mark} {line}"));
    shown.chain((more > 0).then(|| format!("  {mark} … and {more} more lines"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differing_lines_are_shown() {
        assert_eq!(shown("a\nb\nc\n", "a\nx\ny\nc\n"), "  line 2\n  - b\n  + x\n  + y");
        assert_eq!(shown("a\nb\n", "a\n"), "  line 2\n  - b");
    }

    #[test]
    fn a_long_difference_is_cut() {
        let long = "x\n".repeat(30);
        assert!(shown("", &long).ends_with("  + … and 20 more lines"));
    }
}
