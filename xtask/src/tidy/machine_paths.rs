//! Checks that no file names a folder of one person's machine.
//!
//! Such a path works only for its author; it gets in by copying from a terminal.

use anyhow::Result;

use super::Finding;
use crate::tree::Tree;

/// Folders that hold homes and checkouts. Written in two parts, because this file is checked too.
const PRIVATE: &[&str] = &[concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in tree.files() {
        let Some(text) = tree.text(path)? else { continue };
        for (index, line) in text.lines().enumerate() {
            let found = PRIVATE.iter().filter(|folder| names(line, folder));
            findings.extend(found.map(|folder| {
                let message = format!("a path below {folder} exists on one machine only; make it relative");
                Finding::fails(format!("{}:{}", path.display(), index + 1), message)
            }));
        }
    }
    Ok(findings)
}

/// Whether `line` holds an absolute path below `folder`, and not the middle of a longer path or address.
fn names(line: &str, folder: &str) -> bool {
    let within_a_path = |before: char| before.is_alphanumeric() || "_-.~/}*".contains(before);
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(within_a_path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    #[test]
    fn relative_paths_and_addresses_are_fine() {
        let text = format!("see https://x.org{p} and a{p}b, ~{p}, $HOME{p}\n", p = PRIVATE[3]);
        assert_eq!(check(&TestFolder::with(&[("a.md", &text)]).tree()).unwrap(), []);
    }

    #[test]
    fn a_path_of_a_home_folder_fails_anywhere_in_a_file() {
        for folder in PRIVATE {
            let text = format!("fine\ncd \"{folder}me/flexor\"\n");
            let findings = check(&TestFolder::with(&[("b.sh", &text)]).tree()).unwrap();
            assert_eq!(findings.len(), 1, "{folder}");
            assert_eq!(findings[0].location, "b.sh:2");
        }
    }

    #[test]
    fn binary_files_are_left_alone() {
        let folder = TestFolder::with(&[]);
        let bytes = [b"\xff\xfe ".as_slice(), PRIVATE[0].as_bytes()].concat();
        std::fs::write(folder.tree().root().join("picture.png"), bytes).unwrap();
        assert_eq!(check(&folder.tree()).unwrap(), []);
    }
}
