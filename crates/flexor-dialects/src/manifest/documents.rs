//! A file as its documents.
//!
//! `---` at the beginning of a line always begins a document, whatever stands around it, so a file can be cut before
//! it is parsed: one broken document then does not hide the others.

use flexor_model::Reason;

use crate::{Finding, Position};

/// Larger files are no manifests.
pub(super) const LARGEST_FILE: usize = 4 << 20;

/// A file with more documents, empty ones included, is no manifest.
const MOST_DOCUMENTS: usize = 10_000;

/// One document as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    /// In which line of the file it begins, counted from 1.
    pub(super) first_line: u32,
}

/// The documents of a file, or why it is no text.
pub(super) fn cut(bytes: &[u8]) -> Result<Vec<Source<'_>>, Finding> {
    let invalid = |message: String| Finding::new(Reason::InvalidYaml, "", message);
    if bytes.len() > LARGEST_FILE {
        return Err(invalid(format!("the file has {} bytes; a manifest has at most {LARGEST_FILE}", bytes.len())));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(invalid("the file is UTF-16".to_owned()).help("save it as UTF-8"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&b| b != b'\n').count() + 1;
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        invalid("the file is not UTF-8 text".to_owned()).at(Some(Position { line: small(line), column: small(column) }))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut sources = Vec::new();
    let (mut start, mut first_line) = (0, 1);
    let (mut offset, mut number) = (0, 1);
    for line in text.split_inclusive('\n') {
        if is_border(line) {
            if sources.len() == MOST_DOCUMENTS {
                let message = format!("the file has more than {MOST_DOCUMENTS} documents");
                let finding = invalid(message).at(Some(Position { line: number, column: 1 }));
                return Err(finding.help("give several files, or a folder"));
            }
            sources.push(Source { text: &text[start..offset], first_line });
            (start, first_line) = (offset, number);
        }
        offset += line.len();
        number += 1;
    }
    sources.push(Source { text: &text[start..], first_line });
    sources.retain(|source| !is_empty(source.text));
    Ok(sources)
}

fn is_border(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Nothing but remarks, directives and borders.
fn is_empty(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%') || line == "---" || line == "..."
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_begin_where_they_begin() {
        let file = b"%YAML 1.2\n---\na: 1\n---\n# nothing\n---  \nb: |\n  ---\n--- c\n";
        let found: Vec<(u32, &str)> = cut(file).unwrap().iter().map(|s| (s.first_line, s.text)).collect();
        assert_eq!(found, [(2, "---\na: 1\n"), (6, "---  \nb: |\n  ---\n"), (9, "--- c\n")]);
    }

    #[test]
    fn empty_documents_count_too() {
        let error = cut("---\n".repeat(50_000).as_bytes()).unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.at.map(|at| at.line)),
            ("the file has more than 10000 documents", Some(10_001))
        );
        assert_eq!(cut("---\n".repeat(10_000).as_bytes()), Ok(vec![]));
    }

    #[test]
    fn what_is_no_text_is_said_where_it_begins() {
        assert_eq!(cut(b"a: 1\nb: \xff").unwrap_err().at, Some(Position { line: 2, column: 4 }));
        assert!(cut(b"\xff\xfea\0").unwrap_err().message.contains("UTF-16"));
        assert!(cut(&vec![b' '; LARGEST_FILE + 1]).is_err());
        assert_eq!(cut("\u{feff}a: 1".as_bytes()).unwrap()[0].text, "a: 1");
    }
}
