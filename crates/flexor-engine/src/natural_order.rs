//! Natural order: `worker-2` sorts before `worker-10`.

use std::cmp::Ordering;

/// Compares two names, digit runs by their value. Names that differ only in leading zeros fall back to plain text, so
/// the order is total.
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    let (mut a, mut b) = (left.as_bytes(), right.as_bytes());
    loop {
        let (Some(&x), Some(&y)) = (a.first(), b.first()) else {
            return a.len().cmp(&b.len()).then_with(|| left.cmp(right));
        };
        if x.is_ascii_digit() && y.is_ascii_digit() {
            let (number_a, rest_a) = split_number(a);
            let (number_b, rest_b) = split_number(b);
            match number_a.len().cmp(&number_b.len()).then_with(|| number_a.cmp(number_b)) {
                Ordering::Equal => (a, b) = (rest_a, rest_b),
                other => return other,
            }
        } else {
            match x.cmp(&y) {
                Ordering::Equal => (a, b) = (&a[1..], &b[1..]),
                other => return other,
            }
        }
    }
}

/// The leading digits without leading zeros, and the rest.
fn split_number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let first = text[..end].iter().position(|byte| *byte != b'0').unwrap_or(end);
    (&text[first..end], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_inside_names_count_by_their_value() {
        let mut names = ["w-10", "w-9", "w-1", "w-100", "w-09", "v-3", "w", "w-1-b", "w-1-a"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, ["v-3", "w", "w-1", "w-1-a", "w-1-b", "w-09", "w-9", "w-10", "w-100"]);
    }

    #[test]
    fn only_equal_names_are_equal() {
        assert_eq!(compare("a-01", "a-1"), Ordering::Less);
        assert_eq!(compare("a-1", "a-1"), Ordering::Equal);
    }
}
