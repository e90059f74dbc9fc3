//! Compares what a command prints with what the page shows.
//!
//! Some words differ in every run and match any word of their kind: ages, instants, addresses, and the random parts of
//! pods' names. `…` stands for any number of lines where it is alone in its line, at the end of a line for the rest of
//! it, and elsewhere for one word. Runs of spaces count as one.

use std::net::IpAddr;

/// Any number of lines, the rest of a line, or a word.
const ANYTHING: &str = "…";

/// Whether the printed text is what the page shows.
pub(super) fn shows(page: &[String], printed: &str) -> bool {
    shows_lines(&words(page.iter().map(String::as_str)), &words(printed.lines()))
}

/// Whether the printed text begins with the lines that the page shows before it leaves some out.
pub(super) fn begins(page: &[String], printed: &str) -> bool {
    let (page, printed) = (words(page.iter().map(String::as_str)), words(printed.lines()));
    let first: Vec<Vec<&str>> = page.into_iter().take_while(|line| line[..] != [ANYTHING]).collect();
    first.len() <= printed.len() && shows_lines(&first, &printed[..first.len()])
}

fn words<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Vec<&'a str>> {
    lines.map(|line| line.split_whitespace().collect()).collect()
}

fn shows_lines(page: &[Vec<&str>], printed: &[Vec<&str>]) -> bool {
    let Some((first, rest)) = page.split_first() else { return printed.is_empty() };
    if first[..] == [ANYTHING] {
        return (0..=printed.len()).any(|skipped| shows_lines(rest, &printed[skipped..]));
    }
    let Some((line, others)) = printed.split_first() else { return false };
    shows_line(first, line) && shows_lines(rest, others)
}

/// A line that ends with `…` shows only how it begins.
fn shows_line(shown: &[&str], found: &[&str]) -> bool {
    let (shown, found) = match shown.split_last() {
        Some((&ANYTHING, beginning)) => (beginning, &found[..beginning.len().min(found.len())]),
        _ => (shown, found),
    };
    shown.len() == found.len() && shown.iter().zip(found).all(|(shown, found)| same_word(shown, found))
}

fn same_word(shown: &str, found: &str) -> bool {
    let kinds = [is_age, is_instant, is_address];
    shown == found
        || shown == ANYTHING
        || kinds.into_iter().any(|is_of| is_of(shown) && is_of(found))
        || same_pod(shown, found)
}

/// Such as `3m12s`.
fn is_age(word: &str) -> bool {
    let mut parts = word.split_inclusive(|letter: char| !letter.is_ascii_digit());
    !word.is_empty() && parts.all(|part| part.len() > 1 && part.ends_with(['s', 'm', 'h', 'd']))
}

/// Such as `2020-03-18T07:40:53Z`, or with a fraction of the second.
fn is_instant(word: &str) -> bool {
    (20..=30).contains(&word.len()) && word.ends_with('Z') && word.as_bytes()[10] == b'T'
}

fn is_address(word: &str) -> bool {
    word.parse::<IpAddr>().is_ok()
}

/// Pods of one Deployment, whose names end with two random parts.
fn same_pod(shown: &str, found: &str) -> bool {
    let split = |word: &str| {
        let mut parts = word.rsplitn(3, '-').map(str::to_owned);
        let (last, hash, name) = (parts.next()?, parts.next()?, parts.next()?);
        let is_random = |part: &str| part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        (last.len() == 5 && hash.len() >= 8 && is_random(&last) && is_random(&hash)).then_some(name)
    };
    split(shown).is_some_and(|name| split(found) == Some(name))
}

#[test]
fn words_that_differ_in_every_run_are_alike() {
    for (shown, found) in [
        ("3s", "2m10s"),
        ("2020-03-18T07:40:53Z", "2026-11-18T19:00:00Z"),
        ("10.96.0.1", "10.96.14.3"),
        ("c-k8s-controller-6d4884c75b-z22cm", "c-k8s-controller-7f9c5d8b6d-x7k2p"),
    ] {
        assert!(same_word(shown, found), "{shown} {found}");
    }
    for (shown, found) in [("3s", "Running"), ("worker-0", "worker-1"), ("a-6d4884c75b-z22cm", "b-6d4884c75b-z22cm")] {
        assert!(!same_word(shown, found), "{shown} {found}");
    }
}

#[test]
fn any_lines_may_stand_between_those_that_are_shown() {
    let page = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(shows(&page(&["a", "…", "d"]), "a\nb\nc\nd\n"));
    assert!(shows(&page(&["…", "d   e"]), "d e\n"));
    assert!(!shows(&page(&["a", "…", "d"]), "a\nb\n"));
    assert!(shows(&page(&["a …"]), "a b c\n") && !shows(&page(&["a b …"]), "a\n"));
    assert!(shows(&page(&["… b …"]), "a b c d\n") && !shows(&page(&["… b …"]), "b c d\n"));
    assert!(!shows(&page(&["a"]), "a\nb\n"), "a line more than shown");
    assert!(!shows(&page(&["a", "b"]), "a\n"), "a line less than shown");
}

#[test]
fn a_program_that_runs_has_printed_the_first_lines() {
    let page = ["a", "b", "…", "z"].map(str::to_owned);
    assert!(begins(&page, "a\nb\nc\n") && begins(&page, "a\nb\n"));
    assert!(!begins(&page, "a\n") && !begins(&page, "a\nc\n"));
}
