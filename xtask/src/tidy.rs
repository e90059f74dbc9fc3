//! `cargo xtask tidy`: the rules of the project that the compiler does not know.
//!
//! Each check is one file below and reads the project through a [`Tree`]; the command and the unit tier run the list
//! here. A check finds facts about the checkout. Style belongs to rustfmt and clippy, not here.

mod crate_graph;
mod doc_links;
mod licences;
mod lints;
mod lock_file;
mod machine_paths;
mod overlays;
mod purity;
mod rust_files;
mod vocabulary;

use anyhow::{Result, bail};

use crate::tree::Tree;

/// One rule of the house.
pub(crate) struct Check {
    /// Short and stable: it is the test's name in the unit tier.
    pub(crate) name: &'static str,
    pub(crate) rule: &'static str,
    pub(crate) run: fn(&Tree) -> Result<Vec<Finding>>,
}

/// Every check, in the order they are run.
pub(crate) const CHECKS: &[Check] = &[
    Check { name: "crate_graph", rule: "dependencies between crates point downwards", run: crate_graph::check },
    Check { name: "purity", rule: "pure crates do no I/O, print nothing and read no clock", run: purity::check },
    Check { name: "lints", rule: "every crate takes the workspace's lints", run: lints::check },
    Check { name: "lock_file", rule: "Cargo.lock is checked in and names public sources", run: lock_file::check },
    Check { name: "licences", rule: "what we are built from may be used and shipped by anyone", run: licences::check },
    Check { name: "module_files", rule: "foo.rs beside foo/, never mod.rs", run: rust_files::module_files },
    Check { name: "file_length", rule: "files are short", run: rust_files::lengths },
    Check { name: "unfinished", rule: "no todo!, no unimplemented!, no ignored test", run: rust_files::unfinished },
    Check { name: "doc_links", rule: "links between documents resolve", run: doc_links::check },
    Check { name: "overlays", rule: "the overlays' controllers differ in names only", run: overlays::check },
    Check { name: "vocabulary", rule: "identifiers use the words of the glossary", run: vocabulary::check },
    Check { name: "machine_paths", rule: "no path of one person's machine", run: machine_paths::check },
];

/// A finding of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) weight: Weight,
    /// `path`, `path:line` or the name of a crate.
    pub(crate) location: String,
    /// The problem and the remedy.
    pub(crate) message: String,
}

/// Whether a finding fails the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// The tree may not be committed like this.
    Fails,
    /// For information only.
    Noted,
}

impl Finding {
    pub(crate) fn fails(location: impl ToString, message: impl Into<String>) -> Finding {
        Finding { weight: Weight::Fails, location: location.to_string(), message: message.into() }
    }

    pub(crate) fn noted(location: impl ToString, message: impl Into<String>) -> Finding {
        Finding { weight: Weight::Noted, location: location.to_string(), message: message.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// Runs every check and prints its findings.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::of_project()?;
    let mut failed = Vec::new();
    for check in CHECKS {
        let findings = (check.run)(&tree)?;
        let fails = findings.iter().any(|finding| finding.weight == Weight::Fails);
        println!("{:<14} {:<4} {}", check.name, if fails { "FAIL" } else { "ok" }, check.rule);
        findings.iter().for_each(|finding| println!("  {finding}"));
        if fails {
            failed.push(check.name);
        }
    }
    if !failed.is_empty() {
        bail!("the tree is not tidy: {}", failed.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_have_names_of_their_own() {
        let mut names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
    }
}
