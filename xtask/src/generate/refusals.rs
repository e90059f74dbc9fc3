//! `docs/reference/refusals.md`: the manifests of `testdata/bad/`, which program refuses each, and its message.
//!
//! The first line of such a file names the program that must refuse it and the reason: `# both: …` where the API server
//! does too, `# local only: …` where only `flexor validate` can find the error. Tests check both, dialect by dialect.
//! This page therefore refuses a file that no test would read.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flexor_dialects::manifest;

use super::Files;
use super::table::{head, table};
use crate::tree::Tree;

const FOLDER: &str = "testdata/bad";

pub(super) fn render(tree: &Tree) -> Result<Files> {
    let introduction = "Each manifest of [`testdata/bad/`](../../testdata/bad) is refused before anything is changed: \
                        by `flexor validate`, and where the second column says so by the API server as well, once the \
                        definitions of [`deploy/crds/`](../../deploy/crds) are installed.";
    let dialects = flexor_dialects::crds().into_iter().map(|(dialect, _)| dialect).collect();
    let mut rows = Vec::new();
    for path in tree.files().filter(|path| path.starts_with(FOLDER)) {
        of_a_dialect(path, &dialects)?;
        rows.push(row(tree, path).with_context(|| format!("{} cannot be listed", path.display()))?);
    }
    let table = table(&["manifest", "refused by", "what is wrong", "what `flexor validate` says"], rows);
    let text = format!("{}\n{table}", head("Refused manifests", introduction));
    Ok(vec![("docs/reference/refusals.md".into(), text)])
}

/// Refuses a file that is not `testdata/bad/DIALECT/NAME.yaml`.
fn of_a_dialect(path: &Path, dialects: &BTreeSet<&str>) -> Result<()> {
    let parts: Vec<_> = path.strip_prefix(FOLDER)?.iter().map(|part| part.to_string_lossy()).collect();
    match parts.as_slice() {
        [dialect, file] if dialects.contains(dialect.as_ref()) && file.ends_with(".yaml") => Ok(()),
        _ => bail!(
            "{} is not {FOLDER}/DIALECT/NAME.yaml with a DIALECT of {}; no test would read it",
            path.display(),
            dialects.iter().copied().collect::<Vec<_>>().join(", ")
        ),
    }
}

fn row(tree: &Tree, path: &Path) -> Result<Vec<String>> {
    let text = tree.text(path)?.unwrap_or_default();
    let (refused_by, wrong) = claim(&text)?;
    let report = manifest::check(text.as_bytes());
    let errors: Vec<_> = report.findings().filter(|finding| finding.is_error()).collect();
    ensure!(!errors.is_empty(), "flexor finds nothing wrong with it");
    let output = errors.iter().map(|finding| {
        let line = finding.at.map(|at| format!("line {}: ", at.line)).unwrap_or_default();
        format!("{line}{finding}")
    });
    let name = path.strip_prefix(FOLDER)?.with_extension("");
    Ok(vec![
        format!("[{}](../../{})", name.display(), path.display()),
        refused_by.to_owned(),
        wrong.to_owned(),
        output.collect::<Vec<_>>().join("\n"),
    ])
}

/// The program that refuses the manifest and the reason, from its first line.
fn claim(text: &str) -> Result<(&'static str, &str)> {
    let first = text.lines().next().unwrap_or_default();
    let claims = [("# both:", "both"), ("# local only:", "`flexor validate`")];
    let found = claims.iter().find_map(|(mark, who)| Some((*who, first.strip_prefix(mark)?.trim())));
    found.filter(|(_, wrong)| !wrong.is_empty()).context("its first line is not '# both: …' or '# local only: …'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    fn rendered(text: &str) -> Result<String> {
        let files = render(&TestFolder::with(&[("testdata/bad/edl/case.yaml", text)]).tree())?;
        Ok(files[0].1.clone())
    }

    #[test]
    fn a_bad_manifest_is_listed_with_its_messages() {
        let page = rendered("# local only: a key stands twice\nkind: A\nkind: B\n").unwrap();
        let row = page.lines().last().unwrap();
        let start = "| [edl/case](../../testdata/bad/edl/case.yaml) | `flexor validate` | a key stands twice | ";
        assert!(row.starts_with(start) && row.len() > start.len() + 5, "{row}");
    }

    #[test]
    fn a_manifest_that_no_test_would_read_is_an_error() {
        for path in ["testdata/bad/dlrovr/case.yaml", "testdata/bad/case.yaml", "testdata/bad/edl/case.yml"] {
            let folder = TestFolder::with(&[(path, "# both: a key stands twice\nkind: A\nkind: B\n")]);
            let error = render(&folder.tree()).unwrap_err().to_string();
            assert!(error.starts_with(path) && error.contains("dlrover, edl"), "{error}");
        }
    }

    #[test]
    fn a_manifest_without_a_claim_is_an_error() {
        let error = format!("{:#}", rendered("kind: A\nkind: B\n").unwrap_err());
        assert!(error.contains("testdata/bad/edl/case.yaml") && error.contains("# both:"), "{error}");
    }

    #[test]
    fn a_manifest_that_is_accepted_after_all_is_an_error() {
        let fine = "# both: nothing\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: fine}\n";
        assert!(format!("{:#}", rendered(fine).unwrap_err()).contains("finds nothing wrong"));
    }
}
