//! Checks that links between documents resolve: the file exists, and so does the heading.
//!
//! Only links inside the repository are checked, without the network. Headings get the anchors that GitHub gives them.

mod markdown;

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::Finding;
use crate::tree::Tree;

const TOP_LEVEL: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
const FOLDERS: &[&str] = &["docs", "examples", "deploy"];

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for page in tree.with_extension("md").filter(|path| is_documentation(path)) {
        let text = tree.text(page)?.unwrap_or_default();
        for (line, target) in markdown::links(&text) {
            if let Some(problem) = problem(tree, page, &text, &target)? {
                findings.push(Finding::fails(format!("{}:{line}", page.display()), problem));
            }
        }
    }
    Ok(findings)
}

fn is_documentation(path: &Path) -> bool {
    TOP_LEVEL.iter().any(|page| path == Path::new(page)) || FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// The problem with a link from `page` to `target`, if any.
fn problem(tree: &Tree, page: &Path, text: &str, target: &str) -> Result<Option<String>> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    if file.starts_with('/') {
        return Ok(Some(format!("{target}: absolute; links inside the repository are relative")));
    }
    let linked = if file.is_empty() {
        page.to_owned()
    } else {
        match resolve(page.parent().unwrap_or(Path::new("")), file) {
            Some(path) => path,
            None => return Ok(Some(format!("{target}: leads out of the repository"))),
        }
    };
    let is_folder = tree.files().any(|path| path.starts_with(&linked) && path != linked);
    if !tree.contains(&linked) && !is_folder {
        return Ok(Some(format!("{target}: no such file ({})", linked.display())));
    }
    let Some(anchor) = anchor.filter(|_| linked.extension().is_some_and(|extension| extension == "md")) else {
        return Ok(None);
    };
    let other = if linked == page { text.to_owned() } else { tree.text(&linked)?.unwrap_or_default() };
    let known = markdown::anchors(&other).iter().any(|known| known == anchor);
    Ok((!known).then(|| format!("{target}: {} has no heading with the anchor #{anchor}", linked.display())))
}

/// `folder/link` without `.` and `..`, or `None` when it leaves the root.
fn resolve(folder: &Path, link: &str) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !resolved.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    fn messages(folder: &TestFolder) -> Vec<String> {
        check(&folder.tree()).unwrap().iter().map(Finding::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let folder = TestFolder::with(&[
            (
                "README.md",
                "# A\n[guide](docs/guide/start.md#first-steps) [us](https://x.org/y) [here](#a) [f](docs/)\n",
            ),
            ("docs/guide/start.md", "## First steps\n![p](../p.svg) [up](../../README.md) `[no](link.md)`\n"),
            ("docs/p.svg", ""),
            ("crates/a/notes.md", "[dead](x.md)"),
        ]);
        assert_eq!(messages(&folder), [""; 0]);
    }

    #[test]
    fn a_missing_file_fails_with_its_line() {
        let folder = TestFolder::with(&[("docs/a.md", "fine\n\n[x](gone.md)\n")]);
        assert_eq!(messages(&folder), ["docs/a.md:3: gone.md: no such file (docs/gone.md)"]);
    }

    #[test]
    fn a_missing_heading_fails() {
        let folder =
            TestFolder::with(&[("README.md", "[x](docs/b.md#two)\n"), ("docs/b.md", "# One\n```\n# Two\n```\n")]);
        assert!(messages(&folder)[0].ends_with("docs/b.md has no heading with the anchor #two"));
    }

    #[test]
    fn a_link_out_of_the_repository_fails() {
        let folder = TestFolder::with(&[("docs/a.md", "[x](../../other/y.md)\n[z](/docs/a.md)\n")]);
        let messages = messages(&folder);
        assert!(messages[0].contains("leads out of the repository"), "{messages:?}");
        assert!(messages[1].contains("absolute"), "{messages:?}");
    }
}
