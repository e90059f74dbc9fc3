//! Checks that `Cargo.lock` is checked in, because tests are meaningful only with the versions that they ran with. It
//! may name only the public index, because a mirror's address would tie the checkout to one network.

use std::path::Path;

use anyhow::Result;

use super::Finding;
use crate::tree::Tree;

const PUBLIC_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut seen_at_root = false;
    for path in tree.files().filter(|path| path.file_name().is_some_and(|name| name == "Cargo.lock")) {
        seen_at_root |= path == Path::new("Cargo.lock");
        let text = tree.text(path)?.unwrap_or_default();
        let sources = text.lines().enumerate().filter_map(|(index, line)| {
            let source = line.strip_prefix("source = \"")?.strip_suffix('"')?;
            Some((index + 1, source))
        });
        findings.extend(sources.filter(|(_, source)| *source != PUBLIC_INDEX).map(|(line, source)| {
            Finding::fails(format!("{}:{line}", path.display()), format!("{source} is not the public index"))
        }));
    }
    if !seen_at_root {
        findings.push(Finding::fails("Cargo.lock", "missing or ignored by git; check it in"));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    #[test]
    fn a_lock_file_of_public_crates_is_fine() {
        let text = format!("[[package]]\nname = \"a\"\nsource = \"{PUBLIC_INDEX}\"\n[[package]]\nname = \"ours\"\n");
        assert_eq!(check(&TestFolder::with(&[("Cargo.lock", &text)]).tree()).unwrap(), []);
    }

    #[test]
    fn a_missing_lock_file_fails() {
        assert_eq!(check(&TestFolder::with(&[("fuzz/Cargo.lock", "")]).tree()).unwrap()[0].location, "Cargo.lock");
    }

    #[test]
    fn a_source_that_others_cannot_reach_fails() {
        let text = "[[package]]\nname = \"a\"\nsource = \"git+https://git.example/a\"\n";
        let findings = check(&TestFolder::with(&[("Cargo.lock", text)]).tree()).unwrap();
        assert_eq!(findings[0].location, "Cargo.lock:3");
    }
}
