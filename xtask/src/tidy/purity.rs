//! Pure crates decide; they do no I/O, start nothing and read no clock.
//!
//! Three nets: their manifests name no crate that does such things, their sources name nothing of the standard library
//! that does, and their own `clippy.toml` bans the same, so that an editor says it first. Tests inside a pure crate may
//! do what they like.

use std::path::Path;

use anyhow::Result;

use super::Finding;
use crate::packages::{self, Package, Use};
use crate::source;
use crate::tree::Tree;

const PURE_CRATES: &[&str] = &["flexor-model", "flexor-engine", "flexor-sched"];

const BANNED_CRATES: &[&str] =
    &["axum", "hyper", "hyper-util", "k8s-openapi", "kube", "nix", "reqwest", "rustls", "tokio", "tonic"];

/// What sources may not name, and what to do instead.
const BANNED_PATHS: &[(&str, &str)] = &[
    ("Instant::now", "time comes in as an argument"),
    ("SystemTime::now", "time comes in as an argument"),
    ("k8s_openapi::", "Kubernetes types stay in flexor-dialects and above"),
    ("kube::", "Kubernetes types stay in flexor-dialects and above"),
    ("std::env", "what the environment says comes in as an argument"),
    ("std::fs", "files are read and written at the edges"),
    ("std::net", "return an action and let an executor do the I/O"),
    ("std::process", "return an action and let an executor start processes"),
    ("std::thread", "pure code has no threads and does not wait"),
    ("tokio::", "pure code is not async"),
];

const CLIPPY_BANS: &[&str] = &["disallowed-methods", "disallowed-types"];

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in packages::read(tree.root())?.iter().filter(|package| PURE_CRATES.contains(&package.name.as_str())) {
        let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
        let folder = folder.strip_prefix(tree.root().canonicalize()?).unwrap_or(folder).to_owned();
        findings.extend(banned_dependencies(package));
        findings.extend(missing_clippy_bans(tree, &folder)?);
        findings.extend(banned_paths(tree, &folder)?);
    }
    Ok(findings)
}

fn banned_dependencies(package: &Package) -> impl Iterator<Item = Finding> {
    let used = package.dependencies.iter().filter(|dependency| dependency.used != Use::Tests);
    used.filter(|dependency| BANNED_CRATES.contains(&dependency.name.as_str())).map(|dependency| {
        Finding::fails(&package.name, format!("is pure and may not depend on {}; move that code up", dependency.name))
    })
}

fn missing_clippy_bans(tree: &Tree, folder: &Path) -> Result<Vec<Finding>> {
    let path = folder.join("clippy.toml");
    if !tree.contains(&path) {
        return Ok(vec![Finding::fails(path.display(), "missing; copy it from another pure crate")]);
    }
    let text = tree.text(&path)?.unwrap_or_default();
    let missing = CLIPPY_BANS.iter().filter(|ban| !text.lines().any(|line| line.starts_with(**ban)));
    Ok(missing
        .map(|ban| Finding::fails(path.display(), format!("has no {ban}; copy it from another pure crate")))
        .collect())
}

fn banned_paths(tree: &Tree, folder: &Path) -> Result<Vec<Finding>> {
    let sources = folder.join("src");
    let mut findings = Vec::new();
    for path in tree.with_extension("rs").filter(|path| path.starts_with(&sources) && !holds_tests(path)) {
        let code = source::without_tests(&source::code_only(&tree.text(path)?.unwrap_or_default()));
        let lines = code.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned()));
        // An import is looked at spelled out, with an end that a pattern such as `tokio::` can match.
        let imports = source::imports(&code).into_iter().map(|(line, import)| (line, format!("{import}::")));
        let mut hits: Vec<(usize, &str, &str)> = Vec::new();
        for (line, text) in lines.chain(imports) {
            let banned = BANNED_PATHS.iter().filter(|(banned, _)| names(&text, banned));
            hits.extend(banned.map(|(banned, instead)| (line, *banned, *instead)));
        }
        hits.sort_unstable();
        hits.dedup();
        findings.extend(hits.into_iter().map(|(line, banned, instead)| {
            let name = banned.trim_end_matches("::");
            Finding::fails(format!("{}:{line}", path.display()), format!("a pure crate may not name {name}: {instead}"))
        }));
    }
    Ok(findings)
}

/// `tests.rs` beside a module and `tests/` below one are only compiled for tests.
fn holds_tests(path: &Path) -> bool {
    path.iter().any(|part| part == "tests" || part == "tests.rs")
}

/// Whether `text` holds `path` as whole identifiers.
fn names(text: &str, path: &str) -> bool {
    let of_a_word = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(path).any(|(at, _)| {
        let after = &text[at + path.len()..];
        !text[..at].ends_with(of_a_word) && (path.ends_with("::") || !after.starts_with(of_a_word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_up::MadeUp;

    const CLIPPY: &str = "disallowed-methods = []\ndisallowed-types = []\n";

    fn pure_crate(dependencies: &str, lib: &str) -> MadeUp {
        MadeUp::with(&[
            ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n"),
            ("crates/m/Cargo.toml", &format!("[package]\nname = \"flexor-model\"\nedition = \"2024\"\n{dependencies}")),
            ("crates/m/clippy.toml", CLIPPY),
            ("crates/m/src/lib.rs", lib),
        ])
    }

    fn messages(folder: &MadeUp) -> Vec<String> {
        check(&folder.tree()).unwrap().iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_crate_that_only_thinks_is_pure() {
        let lib = "//! Not tokio::spawn.\nuse std::time::Duration;\nuse std::{fmt, collections::BTreeMap};\n\
                   fn f() -> &'static str { \"std::fs\" }\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        let folder = pure_crate("[dev-dependencies]\ntokio = \"1\"\n", lib);
        folder.write("crates/m/src/job/tests.rs", "use std::env;");
        folder.write("crates/m/tests/it/main.rs", "use std::fs;");
        assert_eq!(messages(&folder), [""; 0]);
    }

    #[test]
    fn impure_names_are_found_however_they_are_imported() {
        let lib = "use std::{fmt, io,\n    fs::File};\nfn f() { let t = std::time::Instant::now(); }\nuse tokio;\n";
        let messages = messages(&pure_crate("", lib));
        let places: Vec<_> = messages.iter().map(|message| message.split(": ").next().unwrap()).collect();
        let lib = "crates/m/src/lib.rs";
        assert_eq!(places, [format!("{lib}:1"), format!("{lib}:3"), format!("{lib}:4")]);
    }

    #[test]
    fn a_similar_name_is_no_reason_to_fail() {
        assert_eq!(messages(&pure_crate("", "use my_tokio::x;\nfn f() { std::fs_like(); }\n")), [""; 0]);
    }

    #[test]
    fn an_impure_dependency_fails() {
        let messages = messages(&pure_crate("[dependencies]\nkube = \"5\"\n", ""));
        assert_eq!(messages, ["flexor-model: is pure and may not depend on kube; move that code up"]);
    }

    #[test]
    fn the_bans_must_also_stand_in_clippy_toml() {
        let folder = pure_crate("", "");
        folder.write("crates/m/clippy.toml", "disallowed-methods = []\n");
        assert!(messages(&folder)[0].contains("has no disallowed-types"));
        std::fs::remove_file(folder.tree().root().join("crates/m/clippy.toml")).unwrap();
        assert!(messages(&folder)[0].starts_with("crates/m/clippy.toml: missing"));
    }
}
