//! Checks that pure crates do no I/O, start nothing, print nothing and read no clock.
//!
//! There are three nets. Their manifests name no impure crate, their sources name nothing impure of the standard
//! library, and the `clippy.toml` of most bans the same, so that an editor reports it first. Tests inside a pure crate
//! are exempt. [`PURE_CRATES`] has the role of each.

use std::path::Path;

use anyhow::Result;

use super::Finding;
use crate::packages::{self, DependencyKind, Package};
use crate::source;
use crate::tree::Tree;

/// The role of a pure crate, which decides its further rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CrateRole {
    /// It decides: it does not know that Kubernetes exists and has no threads, and its `clippy.toml` bans both.
    Decides,
    /// It translates users' manifests: it knows the types of Kubernetes but no client. It may parse on a thread, which
    /// has a stack of known size. No `clippy.toml`: it would bind the integration tests too, which read files.
    Translates,
}

const PURE_CRATES: &[(&str, CrateRole)] = &[
    ("flexor-model", CrateRole::Decides),
    ("flexor-engine", CrateRole::Decides),
    ("flexor-sched", CrateRole::Decides),
    ("flexor-dialects", CrateRole::Translates),
];

const BANNED_CRATES: &[&str] = &[
    "anstream",
    "axum",
    "hyper",
    "hyper-util",
    "kube-client",
    "kube-runtime",
    "nix",
    "reqwest",
    "rustls",
    "tempfile",
    "tokio",
    "tonic",
];

/// The paths that sources may not name, and the alternative.
const BANNED_PATHS: &[(&str, &str)] = &[
    ("Instant::now", "time comes in as an argument"),
    ("SystemTime::now", "time comes in as an argument"),
    ("dbg!", PRINTING),
    ("eprint!", PRINTING),
    ("eprintln!", PRINTING),
    ("print!", PRINTING),
    ("println!", PRINTING),
    ("std::env", "what the environment says comes in as an argument"),
    ("std::fs", "files are read and written at the edges"),
    ("std::io::stderr", PRINTING),
    ("std::io::stdin", "input comes in as bytes"),
    ("std::io::stdout", PRINTING),
    ("std::net", "return an action and let an executor do the I/O"),
    ("std::process", "return an action and let an executor start processes"),
    ("tokio::", "pure code is not async"),
];

const PRINTING: &str = "return a value and let the binary print it";

impl CrateRole {
    fn banned_crates(self) -> &'static [&'static str] {
        match self {
            CrateRole::Decides => &["k8s-openapi", "kube"],
            CrateRole::Translates => &[],
        }
    }

    fn banned_paths(self) -> &'static [(&'static str, &'static str)] {
        const TYPES: &str = "Kubernetes types stay in flexor-dialects and above";
        const CLIENTS: &str = "talking to a cluster is the binary's part";
        match self {
            CrateRole::Decides => &[
                ("k8s_openapi::", TYPES),
                ("kube::", TYPES),
                ("std::thread", "pure code has no threads and does not wait"),
            ],
            CrateRole::Translates => &[
                ("kube::Api", CLIENTS),
                ("kube::Client", CLIENTS),
                ("kube::Config", CLIENTS),
                ("kube::client", CLIENTS),
                ("kube::config", CLIENTS),
                ("kube::runtime", CLIENTS),
                ("thread::sleep", "pure code does not wait"),
            ],
        }
    }
}

const CLIPPY_BANS: &[&str] = &["disallowed-methods", "disallowed-types"];

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in &packages::read(tree.root())? {
        let Some((_, work)) = PURE_CRATES.iter().find(|(name, _)| *name == package.name) else {
            continue;
        };
        let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
        let folder = folder.strip_prefix(tree.root().canonicalize()?).unwrap_or(folder).to_owned();
        findings.extend(banned_dependencies(package, *work));
        if *work == CrateRole::Decides {
            findings.extend(missing_clippy_bans(tree, &folder)?);
        }
        findings.extend(banned_paths(tree, &folder, *work)?);
    }
    Ok(findings)
}

fn banned_dependencies(package: &Package, work: CrateRole) -> impl Iterator<Item = Finding> {
    let banned = move |name: &str| BANNED_CRATES.iter().chain(work.banned_crates()).any(|banned| *banned == name);
    let used = package.dependencies.iter().filter(|dependency| dependency.used != DependencyKind::Tests);
    used.filter(move |dependency| banned(&dependency.name)).map(|dependency| {
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

fn banned_paths(tree: &Tree, folder: &Path, work: CrateRole) -> Result<Vec<Finding>> {
    let sources = folder.join("src");
    let mut findings = Vec::new();
    for path in tree.with_extension("rs").filter(|path| path.starts_with(&sources) && !holds_tests(path)) {
        let code = source::without_tests(&source::code_only(&tree.text(path)?.unwrap_or_default()));
        let lines = code.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned()));
        // An import is checked in its full form, with an end that a pattern such as `tokio::` can match.
        let imports = source::imports(&code).into_iter().map(|(line, import)| (line, format!("{import}::")));
        let mut hits: Vec<(usize, &str, &str)> = Vec::new();
        for (line, text) in lines.chain(imports) {
            let bans = BANNED_PATHS.iter().chain(work.banned_paths());
            let banned = bans.filter(|(banned, _)| names(&text, banned));
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

/// Whether `text` contains `path` as complete identifiers.
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
    use crate::tree::test_folder::TestFolder;

    const CLIPPY: &str = "disallowed-methods = []\ndisallowed-types = []\n";

    fn crate_called(name: &str, dependencies: &str, lib: &str) -> TestFolder {
        TestFolder::with(&[
            ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n"),
            ("crates/m/Cargo.toml", &format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n{dependencies}")),
            ("crates/m/src/lib.rs", lib),
        ])
    }

    fn pure_crate(dependencies: &str, lib: &str) -> TestFolder {
        let folder = crate_called("flexor-model", dependencies, lib);
        folder.write("crates/m/clippy.toml", CLIPPY);
        folder
    }

    fn messages(folder: &TestFolder) -> Vec<String> {
        check(&folder.tree()).unwrap().iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_crate_that_only_computes_is_pure() {
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
        let locations: Vec<_> = messages.iter().map(|message| message.split(": ").next().unwrap()).collect();
        let lib = "crates/m/src/lib.rs";
        assert_eq!(locations, [format!("{lib}:1"), format!("{lib}:3"), format!("{lib}:4")]);
    }

    #[test]
    fn printing_is_for_the_binary() {
        let lib = "fn f() { println!(); }\nfn g() { eprint!(\"\") }\nfn h() { writeln!(out) }\nuse std::io::{self, stdout};\n";
        let locations: Vec<_> = check(&pure_crate("", lib).tree()).unwrap().into_iter().map(|f| f.location).collect();
        assert_eq!(locations, ["crates/m/src/lib.rs:1", "crates/m/src/lib.rs:2", "crates/m/src/lib.rs:4"]);
    }

    #[test]
    fn dialects_know_the_types_of_kubernetes_and_no_cluster() {
        let types =
            "use k8s_openapi::api::core::v1::Pod;\nuse kube::{CustomResource, CustomResourceExt};\nuse std::thread;\n";
        let dependencies = "[dependencies]\nkube = \"5\"\nk8s-openapi = \"0.29\"\n";
        assert_eq!(messages(&crate_called("flexor-dialects", dependencies, types)), [""; 0]);

        let client = "use kube::{Api, CustomResource};\nuse std::fs;\nfn f() { kube::Client::try_default() }\n";
        let locations: Vec<_> = messages(&crate_called("flexor-dialects", "", client))
            .iter()
            .map(|message| message.split(": ").next().unwrap().to_owned())
            .collect();
        assert_eq!(locations, [1, 2, 3].map(|line| format!("crates/m/src/lib.rs:{line}")));
        let messages = messages(&crate_called("flexor-dialects", "[dependencies]\ntokio = \"1\"\n", ""));
        assert_eq!(messages, ["flexor-dialects: is pure and may not depend on tokio; move that code up"]);
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
    fn the_bans_must_also_be_in_clippy_toml() {
        let folder = pure_crate("", "");
        folder.write("crates/m/clippy.toml", "disallowed-methods = []\n");
        assert!(messages(&folder)[0].contains("has no disallowed-types"));
        std::fs::remove_file(folder.tree().root().join("crates/m/clippy.toml")).unwrap();
        assert!(messages(&folder)[0].starts_with("crates/m/clippy.toml: missing"));
    }
}
