//! `cargo xtask gen`: files written from the code, checked in so that people can read and apply them.
//!
//! A [`Page`] renders one or more files from the crates' own tables. `gen` writes them; `gen --check` (and the unit
//! tier) fails while a checked-in file differs. A page may own a folder; a file without a source in it also fails the
//! check.

mod cli;
mod crds;
mod difference;
mod environment;
mod kinds;
mod reasons;
mod refusals;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::tree::Tree;

/// Arguments of `cargo xtask gen`.
#[derive(Args)]
pub(crate) struct GenArgs {
    /// Write nothing; fail when a checked-in file is not what would be written
    #[arg(long)]
    check: bool,
}

/// The remedy for a complaint of [`stale`].
pub(crate) const REMEDY: &str = "run: cargo xtask gen";

const ALL_CURRENT: &str = "all current";

/// Rendered files with their text; paths are relative to the root.
type Files = Vec<(PathBuf, String)>;

/// Files rendered from the code.
pub(crate) struct Page {
    /// Short and stable: it is the test's name in the unit tier.
    pub(crate) name: &'static str,
    /// The folder that holds only this page's files, and their extension.
    owns: Option<(&'static str, &'static str)>,
    render: fn(&Tree) -> Result<Files>,
}

/// Every page.
pub(crate) const PAGES: &[Page] = &[
    Page { name: "crds", owns: Some((crds::FOLDER, "yaml")), render: crds::render },
    Page { name: "cli", owns: None, render: cli::render },
    Page { name: "environment", owns: None, render: environment::render },
    Page { name: "kinds", owns: None, render: kinds::render },
    Page { name: "reasons", owns: None, render: reasons::render },
    Page { name: "refusals", owns: None, render: refusals::render },
];

/// Writes every page, or checks that it is written.
pub(crate) fn run(args: GenArgs) -> Result<()> {
    let tree = Tree::of_project()?;
    if !args.check {
        let mut changes = Vec::new();
        for page in PAGES {
            changes.extend(write(&tree, page)?);
        }
        changes.iter().for_each(|change| println!("{change}"));
        if changes.is_empty() {
            println!("{ALL_CURRENT}");
        }
        return Ok(());
    }
    let mut complaints = Vec::new();
    for page in PAGES {
        complaints.extend(stale(&tree, page)?);
    }
    if !complaints.is_empty() {
        bail!("generated files are not current\n{}\n{REMEDY}", complaints.join("\n"));
    }
    println!("{ALL_CURRENT}");
    Ok(())
}

/// The complaints about the checked-in files of a page; empty when they are current.
pub(crate) fn stale(tree: &Tree, page: &Page) -> Result<Vec<String>> {
    let files = (page.render)(tree)?;
    let mut complaints = Vec::new();
    for (path, text) in &files {
        let shown = path.display();
        match current(tree, path)? {
            None => complaints.push(format!("{shown}: missing")),
            Some(current) if current != *text => {
                complaints.push(format!("{shown}: not current\n{}", difference::shown(&current, text)));
            }
            Some(_) => {}
        }
    }
    complaints.extend(orphans(tree, page, &files).map(|path| format!("{}: nothing generates it", path.display())));
    Ok(complaints)
}

/// Writes changed files, removes files without a source, and reports both.
fn write(tree: &Tree, page: &Page) -> Result<Vec<String>> {
    let files = (page.render)(tree)?;
    let mut changes = Vec::new();
    for (path, text) in &files {
        if current(tree, path)?.as_deref() == Some(text) {
            continue;
        }
        let absolute = tree.root().join(path);
        let folder = absolute.parent().unwrap_or(tree.root());
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::write(&absolute, text).with_context(|| format!("cannot write {}", path.display()))?;
        changes.push(format!("wrote {}", path.display()));
    }
    for path in orphans(tree, page, &files) {
        std::fs::remove_file(tree.root().join(path)).with_context(|| format!("cannot remove {}", path.display()))?;
        changes.push(format!("removed {}", path.display()));
    }
    Ok(changes)
}

/// The text on disk, which may be too new for the tree to list.
fn current(tree: &Tree, path: &Path) -> Result<Option<String>> {
    if tree.root().join(path).exists() { tree.text(path) } else { Ok(None) }
}

fn orphans<'a>(tree: &'a Tree, page: &'a Page, files: &'a [(PathBuf, String)]) -> impl Iterator<Item = &'a Path> {
    let owned = page
        .owns
        .into_iter()
        .flat_map(|(folder, extension)| tree.with_extension(extension).filter(move |path| path.starts_with(folder)));
    owned.filter(|path| !files.iter().any(|(generated, _)| generated == path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    const PAGE: Page = Page {
        name: "p",
        owns: Some(("out", "yaml")),
        render: |_| Ok(vec![("out/a.yaml".into(), "a: 1\nb: 2\n".into())]),
    };

    fn complaints(folder: &TestFolder) -> String {
        stale(&folder.tree(), &PAGE).unwrap().join("\n")
    }

    #[test]
    fn files_written_by_gen_pass_the_check() {
        let folder = TestFolder::with(&[("out/sub/old.yaml", "left over"), ("out/README.md", "by hand")]);
        assert_eq!(write(&folder.tree(), &PAGE).unwrap(), ["wrote out/a.yaml", "removed out/sub/old.yaml"]);
        assert_eq!(complaints(&folder), "");
        assert!(folder.tree().contains("out/README.md"), "only the page's own kind of file is its own");
        assert_eq!(write(&folder.tree(), &PAGE).unwrap(), [""; 0], "a second run has nothing to do");
    }

    #[test]
    fn a_file_edited_by_hand_fails_the_check_and_is_shown() {
        let folder = TestFolder::with(&[("out/a.yaml", "a: 1\nb: 3\n")]);
        assert_eq!(complaints(&folder), "out/a.yaml: not current\n  line 2\n  - b: 3\n  + b: 2");
    }

    #[test]
    fn a_missing_file_fails_the_check() {
        assert_eq!(complaints(&TestFolder::with(&[])), "out/a.yaml: missing");
    }

    #[test]
    fn a_file_that_nothing_generates_fails_the_check() {
        let folder = TestFolder::with(&[("out/a.yaml", "a: 1\nb: 2\n"), ("out/b.yaml", "")]);
        assert_eq!(complaints(&folder), "out/b.yaml: nothing generates it");
    }
}
