//! Checks that every package in our builds has a licence that permits use, change and distribution of the result.
//!
//! The package's manifest states the licence, an [`Expression`] over names of the SPDX list. The fuzz targets are never
//! shipped and not checked. The check does not look for a licence's text in a package.

mod expression;

use anyhow::Result;

use self::expression::Expression;
use super::Finding;
use crate::packages::{self, Package};
use crate::tree::Tree;

/// Licences that ask for no more than to be named.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// One package whose licence is acceptable for its use.
struct Exception {
    package: &'static str,
    licence: &'static str,
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[Exception {
    package: "webpki-root-certs",
    licence: "CDLA-Permissive-2.0",
    reason: "a list of certificates, which is data; the licence asks only to be passed on with it",
}];

const TABLES: &str = "ALLOWED and EXCEPTIONS in xtask/src/tidy/licences.rs";

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    Ok(judge(&packages::read_with_dependencies(tree.root())?, EXCEPTIONS))
}

fn judge(packages: &[Package], exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = packages.iter().filter_map(|package| complaint(package, exceptions)).collect();
    let unused =
        exceptions.iter().filter(|exception| !packages.iter().any(|package| package.name == exception.package));
    findings.extend(unused.map(|exception| {
        let message = format!("is not used, so no exception is needed ({}); see {TABLES}", exception.reason);
        Finding::fails(exception.package, message)
    }));
    findings
}

fn complaint(package: &Package, exceptions: &[Exception]) -> Option<Finding> {
    let location = format!("{} {}", package.name, package.version);
    let Some(licence) = &package.license else {
        return Some(Finding::fails(location, format!("names no licence; use another crate, or see {TABLES}")));
    };
    let excepted = |name: &str| exceptions.iter().any(|e| e.package == package.name && e.licence == name);
    match Expression::parse(licence) {
        Ok(expression) if expression.holds(&|name| ALLOWED.contains(&name) || excepted(name)) => None,
        Ok(_) => Some(Finding::fails(location, format!("is under {licence}; use another crate, or see {TABLES}"))),
        Err(reason) => {
            Some(Finding::fails(location, format!("has a licence that cannot be read, {licence}: {reason}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    const LISTED: Exception = Exception { package: "list", licence: "CDLA-Permissive-2.0", reason: "data" };

    fn package(name: &str, license: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            license: license.map(str::to_owned),
            manifest_path: "Cargo.toml".into(),
            dependencies: Vec::new(),
        }
    }

    fn messages(package: &Package) -> Vec<String> {
        judge(std::slice::from_ref(package), &[]).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn permissive_licences_are_fine() {
        for fine in ["MIT", "Apache-2.0", "MIT OR GPL-3.0-only", "Unlicense/MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"]
        {
            assert_eq!(messages(&package("a", Some(fine))), [""; 0], "{fine}");
        }
    }

    #[test]
    fn a_licence_that_binds_others_fails() {
        for bad in ["GPL-3.0-only", "MPL-2.0", "MIT AND LGPL-2.1-or-later", "BUSL-1.1"] {
            let messages = messages(&package("a", Some(bad)));
            assert_eq!(messages.len(), 1, "{bad}");
            assert!(messages[0].starts_with(&format!("a 1.2.3: is under {bad};")), "{messages:?}");
        }
    }

    #[test]
    fn no_licence_and_an_unreadable_one_fail() {
        assert!(messages(&package("a", None))[0].contains("names no licence"));
        assert!(messages(&package("a", Some("MIT OR")))[0].contains("cannot be read"));
    }

    #[test]
    fn an_exception_holds_for_its_package_and_its_licence_only() {
        let listed = package("list", Some("CDLA-Permissive-2.0"));
        assert_eq!(judge(std::slice::from_ref(&listed), &[LISTED]), []);
        let others = [listed, package("other", Some("CDLA-Permissive-2.0"))];
        assert_eq!(judge(&others, &[LISTED])[0].location, "other 1.2.3");
        assert_eq!(judge(&[package("list", Some("GPL-2.0-only"))], &[LISTED])[0].location, "list 1.2.3");
    }

    #[test]
    fn an_exception_that_nothing_needs_fails() {
        assert_eq!(judge(&[], &[LISTED])[0].location, "list");
    }

    #[test]
    fn cargo_is_asked_for_what_the_lock_file_names() {
        let member = |name: &str, license: &str, dependencies: &str| {
            format!("[package]\nname = \"{name}\"\nedition = \"2024\"\nlicense = \"{license}\"\n{dependencies}")
        };
        let folder = TestFolder::with(&[
            ("Cargo.toml", &format!("[workspace]\n{}", member("a", "MIT", "[dependencies]\nb = { path = \"b\" }\n"))),
            ("src/lib.rs", ""),
            ("b/Cargo.toml", &member("b", "AGPL-3.0-only", "")),
            ("b/src/lib.rs", ""),
            (
                "Cargo.lock",
                "version = 4\n[[package]]\nname = \"a\"\nversion = \"0.0.0\"\ndependencies = [\"b\"]\n[[package]]\nname = \"b\"\nversion = \"0.0.0\"\n",
            ),
        ]);
        let locations: Vec<_> = check(&folder.tree()).unwrap().into_iter().map(|finding| finding.location).collect();
        assert_eq!(locations, ["b 0.0.0", EXCEPTIONS[0].package]);
    }
}
