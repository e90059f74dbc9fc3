//! Parses decimal text as C++'s `std::stoll` does: torch's server uses it to decide whether a value is a number.

/// Parses the number at the start of a text: white space, a sign, digits; the rest is ignored. None without digits and
/// beyond 64 bits.
pub(super) fn parse(text: &[u8]) -> Option<i64> {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let text = text.get(blanks..)?;
    let signs = text.iter().take(1).take_while(|byte| matches!(byte, b'+' | b'-')).count();
    let digits = text.get(signs..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(text.get(..signs + digits)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_are_read_as_cpp_reads_them() {
        let cases: [(&[u8], Option<i64>); 13] = [
            (b"0", Some(0)),
            (b"-17", Some(-17)),
            (b"+5", Some(5)),
            (b" \t\n\x0b\x0c\r7", Some(7)),
            (b"12abc", Some(12)),
            (b"3.9", Some(3)),
            (b"9223372036854775807", Some(i64::MAX)),
            (b"-9223372036854775808", Some(i64::MIN)),
            (b"9223372036854775808", None),
            (b"", None),
            (b"-", None),
            (b"abc", None),
            (b"\xff1", None),
        ];
        for (text, number) in cases {
            assert_eq!(parse(text), number, "{}", text.escape_ascii());
        }
    }
}
