//! Checks name, length and completeness of `.rs` files.

use anyhow::Result;

use super::Finding;
use crate::source;
use crate::tree::Tree;

/// A longer file should be split.
const LONG: usize = 600;
/// Past this it is not accepted.
const TOO_LONG: usize = 1000;

const UNFINISHED: &[(&str, &str)] = &[
    ("todo!(", "finish it or leave it out"),
    ("unimplemented!(", "finish it or leave it out"),
    ("#[ignore", "a test that cannot run here says so with skip!(reason), which is counted"),
];

pub(super) fn module_files(tree: &Tree) -> Result<Vec<Finding>> {
    let named = tree.with_extension("rs").filter(|path| path.file_name().is_some_and(|name| name == "mod.rs"));
    Ok(named.map(|path| Finding::fails(path.display(), "rename it to foo.rs beside the folder foo/")).collect())
}

pub(super) fn lengths(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in tree.with_extension("rs") {
        let lines = tree.text(path)?.unwrap_or_default().lines().count();
        if lines > TOO_LONG {
            let message = format!("{lines} lines, more than {TOO_LONG}; split it by idea");
            findings.push(Finding::fails(path.display(), message));
        } else if lines > LONG {
            findings.push(Finding::noted(path.display(), format!("{lines} lines; past {LONG} a file wants to be two")));
        }
    }
    Ok(findings)
}

pub(super) fn unfinished(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in tree.with_extension("rs") {
        let code = source::code_only(&tree.text(path)?.unwrap_or_default());
        for (index, line) in code.lines().enumerate() {
            let marks = UNFINISHED.iter().filter(|(mark, _)| line.contains(mark));
            findings.extend(marks.map(|(mark, instead)| {
                let mark = mark.trim_end_matches('(').trim_start_matches("#[");
                Finding::fails(format!("{}:{}", path.display(), index + 1), format!("{mark}: {instead}"))
            }));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::super::Weight;
    use super::*;
    use crate::tree::test_folder::TestFolder;

    #[test]
    fn mod_rs_is_refused_and_the_other_style_is_not() {
        let good = TestFolder::with(&[("src/job.rs", ""), ("src/job/role.rs", ""), ("docs/mod.rs.md", "")]);
        assert_eq!(module_files(&good.tree()).unwrap(), []);
        let bad = TestFolder::with(&[("src/job/mod.rs", "")]);
        assert_eq!(module_files(&bad.tree()).unwrap()[0].location, "src/job/mod.rs");
    }

    #[test]
    fn a_long_file_is_listed_and_a_very_long_one_fails() {
        let lines = |count: usize| "//\n".repeat(count);
        let folder = TestFolder::with(&[
            ("a.rs", &lines(LONG)),
            ("b.rs", &lines(LONG + 1)),
            ("c.rs", &lines(TOO_LONG + 1)),
            ("page.md", &lines(TOO_LONG + 1)),
        ]);
        let found: Vec<_> = lengths(&folder.tree()).unwrap().into_iter().map(|f| (f.location, f.weight)).collect();
        assert_eq!(found, [("b.rs".to_owned(), Weight::Noted), ("c.rs".to_owned(), Weight::Fails)]);
    }

    #[test]
    fn unfinished_code_fails_and_prose_about_it_does_not() {
        let good = TestFolder::with(&[("a.rs", "// todo!() is banned\nconst MARK: &str = \"#[ignore]\";\n")]);
        assert_eq!(unfinished(&good.tree()).unwrap(), []);
        let bad = TestFolder::with(&[("a.rs", "fn f() { todo!() }\n#[test]\n#[ignore = \"slow\"]\nfn g() {}\n")]);
        let locations: Vec<_> = unfinished(&bad.tree()).unwrap().into_iter().map(|finding| finding.location).collect();
        assert_eq!(locations, ["a.rs:1", "a.rs:3"]);
    }
}
