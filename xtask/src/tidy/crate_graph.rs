//! Which crate may use which: dependencies point downwards only, as ARCHITECTURE.md draws them.
//!
//! [`LAYERS`] is the one place where that is written down for machines. Only crates of this workspace are judged here;
//! what pure crates may take from outside is [`super::purity`]'s concern.

use anyhow::Result;

use super::Finding;
use crate::packages::{self, DependencyKind, Package};
use crate::tree::Tree;

/// The dependencies that one crate may have in the workspace.
struct Layer {
    name: &'static str,
    uses: &'static [&'static str],
    in_tests: &'static [&'static str],
}

/// Every crate, bottom first.
const LAYERS: &[Layer] = &[
    Layer { name: "flexor-model", uses: &[], in_tests: &[] },
    Layer { name: "flexor-seeds", uses: &["flexor-model"], in_tests: &[] },
    Layer { name: "flexor-engine", uses: &["flexor-model"], in_tests: &["flexor-seeds"] },
    Layer { name: "flexor-sched", uses: &["flexor-model"], in_tests: &[] },
    Layer { name: "flexor-dialects", uses: &["flexor-model", "flexor-engine"], in_tests: &[] },
    Layer { name: "flexor-wire", uses: &[], in_tests: &[] },
    Layer { name: "flexor-client", uses: &["flexor-wire"], in_tests: &[] },
    Layer { name: "flexor-listen", uses: &[], in_tests: &[] },
    Layer { name: "flexor-data", uses: &[], in_tests: &[] },
    Layer {
        name: "flexor-ps",
        uses: &["flexor-model", "flexor-wire", "flexor-client"],
        in_tests: &["flexor-engine", "flexor-master", "flexor-seeds"],
    },
    Layer {
        name: "flexor-store",
        uses: &["flexor-model", "flexor-engine", "flexor-wire", "flexor-client", "flexor-listen"],
        in_tests: &["flexor-seeds"],
    },
    Layer {
        name: "flexor-master",
        uses: &["flexor-model", "flexor-engine", "flexor-wire", "flexor-listen", "flexor-store"],
        in_tests: &[],
    },
    Layer {
        name: "flexor-agent",
        uses: &["flexor-model", "flexor-engine", "flexor-dialects", "flexor-wire", "flexor-client", "flexor-store"],
        in_tests: &[],
    },
    Layer {
        name: "flexor-control",
        uses: &["flexor-model", "flexor-engine", "flexor-sched", "flexor-wire", "flexor-client"],
        in_tests: &["flexor-dialects"],
    },
    Layer {
        name: "flexor-local",
        uses: &[
            "flexor-model",
            "flexor-engine",
            "flexor-sched",
            "flexor-dialects",
            "flexor-wire",
            "flexor-client",
            "flexor-listen",
            "flexor-store",
            "flexor-agent",
            "flexor-control",
        ],
        in_tests: &[],
    },
    Layer {
        name: "flexor-operator",
        uses: &[
            "flexor-model",
            "flexor-engine",
            "flexor-sched",
            "flexor-dialects",
            "flexor-wire",
            "flexor-client",
            "flexor-control",
        ],
        in_tests: &[],
    },
    Layer { name: "flexor-worker", uses: &["flexor-model", "flexor-wire", "flexor-data", "flexor-ps"], in_tests: &[] },
    Layer { name: "flexor-image", uses: &[], in_tests: &[] },
    Layer { name: "flexor-testbed", uses: &["flexor-model", "flexor-image"], in_tests: &[] },
    Layer {
        name: "flexor",
        uses: &[
            "flexor-model",
            "flexor-engine",
            "flexor-sched",
            "flexor-data",
            "flexor-dialects",
            "flexor-wire",
            "flexor-client",
            "flexor-listen",
            "flexor-ps",
            "flexor-worker",
            "flexor-store",
            "flexor-master",
            "flexor-agent",
            "flexor-control",
            "flexor-local",
            "flexor-operator",
        ],
        in_tests: &["flexor-seeds", "flexor-testbed"],
    },
    Layer {
        name: "xtask",
        uses: &[
            "flexor",
            "flexor-control",
            "flexor-data",
            "flexor-dialects",
            "flexor-engine",
            "flexor-image",
            "flexor-model",
            "flexor-ps",
            "flexor-sched",
            "flexor-store",
            "flexor-testbed",
            "flexor-wire",
            "flexor-worker",
        ],
        in_tests: &[],
    },
];

const TABLE: &str = "LAYERS in xtask/src/tidy/crate_graph.rs";

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let packages = packages::read(tree.root())?;
    Ok(packages.iter().flat_map(|package| judge(package, &packages)).collect())
}

fn judge(package: &Package, workspace: &[Package]) -> Vec<Finding> {
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == package.name) else {
        return vec![Finding::fails(&package.name, format!("unknown crate; say what it may use in {TABLE}"))];
    };
    let ours = package.dependencies.iter().filter(|dependency| {
        workspace.iter().any(|other| other.name == dependency.name) && dependency.name != package.name
    });
    ours.filter_map(|dependency| {
        let name = dependency.name.as_str();
        let allowed = layer.uses.contains(&name);
        match dependency.used {
            DependencyKind::Tests if allowed || layer.in_tests.contains(&name) => None,
            DependencyKind::Normal | DependencyKind::Build if allowed => None,
            DependencyKind::Normal | DependencyKind::Build if layer.in_tests.contains(&name) => Some(Finding::fails(
                &package.name,
                format!("may use {name} in its tests only; move it to [dev-dependencies]"),
            )),
            DependencyKind::Normal | DependencyKind::Build | DependencyKind::Tests => Some(Finding::fails(
                &package.name,
                format!("may not depend on {name}: dependencies point downwards only ({TABLE})"),
            )),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    /// A workspace whose crates have the given lines after their `[package]` table.
    fn workspace(crates: &[(&str, &str)]) -> TestFolder {
        let folder = TestFolder::with(&[("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n")]);
        for (name, dependencies) in crates {
            let manifest = format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n{dependencies}\n");
            folder.write(&format!("crates/{name}/Cargo.toml"), &manifest);
            folder.write(&format!("crates/{name}/src/lib.rs"), "");
        }
        folder
    }

    fn messages(folder: &TestFolder) -> Vec<String> {
        check(&folder.tree()).unwrap().iter().map(Finding::to_string).collect()
    }

    const MODEL: &str = "[dependencies]\nflexor-model = { path = \"../flexor-model\" }";
    const TESTBED_IN_TESTS: &str = "[dev-dependencies]\nflexor-testbed = { path = \"../flexor-testbed\" }";
    const TESTBED: &str = "[dependencies]\nflexor-testbed = { path = \"../flexor-testbed\" }";

    #[test]
    fn dependencies_that_point_downwards_are_fine() {
        let folder = workspace(&[
            ("flexor-model", ""),
            ("flexor-testbed", MODEL),
            ("flexor-dialects", MODEL),
            ("flexor", TESTBED_IN_TESTS),
        ]);
        assert_eq!(messages(&folder), [""; 0]);
    }

    #[test]
    fn a_dependency_that_points_upwards_fails_even_in_tests() {
        let upwards = "[dev-dependencies]\nflexor-dialects = { path = \"../flexor-dialects\" }";
        let folder = workspace(&[("flexor-model", upwards), ("flexor-dialects", "")]);
        let messages = messages(&folder);
        assert_eq!(messages.len(), 1);
        assert!(messages[0].starts_with("flexor-model: may not depend on flexor-dialects"), "{messages:?}");
    }

    #[test]
    fn the_testbed_may_not_end_up_in_the_binary() {
        let folder = workspace(&[("flexor-testbed", ""), ("flexor", TESTBED)]);
        let messages = messages(&folder);
        assert_eq!(messages, ["flexor: may use flexor-testbed in its tests only; move it to [dev-dependencies]"]);
    }

    #[test]
    fn an_unregistered_crate_fails_and_the_message_names_the_layers() {
        let messages = messages(&workspace(&[("flexor-surprise", "")]));
        assert_eq!(messages.len(), 1);
        assert!(messages[0].contains("unknown crate") && messages[0].contains(TABLE), "{messages:?}");
    }
}
