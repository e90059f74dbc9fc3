//! Numbers as Python reads them, because users' scripts and manifests were tried with Python's `int` and `float`.

/// A whole number: blanks around it, a sign, and single underscores between digits are allowed.
pub(super) fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    without_underscores(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    without_underscores(text)?.parse().ok()
}

/// A number: `0.1`, `1e3`, `inf`.
pub(super) fn float(text: &str) -> Option<f64> {
    without_underscores(text.trim())?.parse().ok()
}

/// The text without underscores; none where one does not stand between two digits.
fn without_underscores(text: &str) -> Option<String> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    let in_place = |i: usize| i > 0 && is_digit(bytes.get(i - 1)) && is_digit(bytes.get(i + 1));
    let well = bytes.iter().enumerate().all(|(i, &byte)| byte != b'_' || in_place(i));
    (well && !text.is_empty()).then(|| text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_reads_is_read() {
        let numbers = ["3", " 3 ", "+3", "-1", "1_000", "007"].map(integer);
        assert_eq!(numbers, [Some(3), Some(3), Some(3), Some(-1), Some(1000), Some(7)]);
        assert_eq!(["", "3.0", "_1", "1_", "1__0", "- 1", "0x10", "9999999999999999999999"].map(integer), [None; 8]);
        assert_eq!(["0.1", "1e3", " 5", "1_0.5"].map(float), [Some(0.1), Some(1000.0), Some(5.0), Some(10.5)]);
        assert_eq!(["", "abc", "1,5"].map(float), [None; 3]);
    }
}
