//! Checks that every crate of the workspace takes the workspace's lints; without them a crate would silently compile
//! under laxer rules.

use anyhow::Result;

use super::Finding;
use crate::packages;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in packages::read(tree.root())? {
        if !inherits(&std::fs::read_to_string(&package.manifest_path)?) {
            findings.push(Finding::fails(
                &package.name,
                "does not take the workspace's lints; add [lints] workspace = true",
            ));
        }
    }
    Ok(findings)
}

fn inherits(manifest: &str) -> bool {
    let mut table = "";
    manifest.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            table = line;
        }
        let words = line.replace(' ', "");
        words == "lints.workspace=true" && table.is_empty() || words == "workspace=true" && table == "[lints]"
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    fn crate_with(lints: &str) -> TestFolder {
        let manifest = format!("[workspace]\n[package]\nname = \"a\"\nedition = \"2024\"\n{lints}");
        TestFolder::with(&[("Cargo.toml", &manifest), ("src/lib.rs", "")])
    }

    #[test]
    fn a_crate_that_takes_the_lints_is_fine() {
        let folder = crate_with("[lints]\nworkspace = true\n[workspace.lints.rust]\nunsafe_code = \"deny\"\n");
        assert_eq!(check(&folder.tree()).unwrap(), []);
        assert!(inherits("lints.workspace = true\n[package]\n"));
    }

    #[test]
    fn a_crate_that_forgets_them_fails() {
        let folder = crate_with("[dependencies]\n");
        assert_eq!(check(&folder.tree()).unwrap().len(), 1);
        assert!(!inherits("[dependencies.x]\nworkspace = true\n"), "another table's key is not the lints'");
    }
}
