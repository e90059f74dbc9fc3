//! Checks that the overlays of `deploy/` run the same controller under the names that their users know.
//!
//! Each `controller.yaml` is complete, so that it can be read and applied by itself. Their Deployments must be equal up
//! to names. Their rights differ on purpose and are not compared.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::Result;

use super::Finding;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut first: Option<(&Path, String)> = None;
    for path in tree.files().filter(|path| is_controller(path)) {
        let Some(deployment) = nameless_deployment(&tree.text(path)?.unwrap_or_default()) else {
            findings.push(Finding::fails(path.display(), "has no Deployment with a name"));
            continue;
        };
        let Some((model, wanted)) = &first else {
            first = Some((path, deployment));
            continue;
        };
        if let Some((here, there)) = first_difference(&deployment, wanted) {
            let message = format!(
                "its Deployment says '{here}' where {} says '{there}'; they may differ in names only",
                model.display()
            );
            findings.push(Finding::fails(path.display(), message));
        }
    }
    Ok(findings)
}

/// `deploy/OVERLAY/controller.yaml`.
fn is_controller(path: &Path) -> bool {
    let parts: Vec<&OsStr> = path.iter().collect();
    matches!(parts[..], [deploy, _, file] if deploy == "deploy" && file == "controller.yaml")
}

/// The document of the Deployment with its own name and its namespace taken out.
fn nameless_deployment(manifest: &str) -> Option<String> {
    let document =
        manifest.split("\n---\n").find(|document| document.lines().any(|line| line == "kind: Deployment"))?;
    let value_of = |key: &str| document.lines().find_map(|line| line.strip_prefix(key));
    let (name, namespace) = (value_of("  name: ")?, value_of("  namespace: ")?);
    let namespace = format!("  namespace: {namespace}\n");
    Some(document.trim_end().replace(name, "NAME").replace(&namespace, "  namespace: NAMESPACE\n"))
}

/// The first differing lines; a missing line counts as empty.
fn first_difference(here: &str, there: &str) -> Option<(String, String)> {
    let count = here.lines().count().max(there.lines().count());
    let line = |text: &str, at: usize| text.lines().nth(at).unwrap_or_default().trim().to_owned();
    (0..count).map(|at| (line(here, at), line(there, at))).find(|(here, there)| here != there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::test_folder::TestFolder;

    fn controller(name: &str, namespace: &str, memory: &str) -> String {
        format!(
            "kind: Namespace\nmetadata:\n  name: {namespace}\n---\nkind: Deployment\nmetadata:\n  name: {name}\n  \
             namespace: {namespace}\nspec:\n  account: {name}\n  memory: {memory}\n"
        )
    }

    fn findings(second: &str) -> Vec<Finding> {
        let first = controller("flexor-operator", "flexor-system", "64Mi");
        let folder = TestFolder::with(&[
            ("deploy/a/controller.yaml", &first),
            ("deploy/b/controller.yaml", second),
            ("deploy/crds/b/controller.yaml", "kind: Other\n"),
        ]);
        check(&folder.tree()).unwrap()
    }

    #[test]
    fn other_names_are_fine() {
        assert_eq!(findings(&controller("dlrover-controller-manager", "dlrover", "64Mi")), []);
    }

    #[test]
    fn any_other_difference_fails_and_is_shown() {
        let found = findings(&controller("dlrover-controller-manager", "dlrover", "32Mi"));
        let message = "deploy/b/controller.yaml: its Deployment says 'memory: 32Mi' where deploy/a/controller.yaml says \
                       'memory: 64Mi'; they may differ in names only";
        assert_eq!(found.iter().map(Finding::to_string).collect::<Vec<_>>(), [message]);
        let shorter = controller("b", "c", "64Mi").replace("  account: b\n", "");
        assert_eq!(findings(&shorter).len(), 1);
    }

    #[test]
    fn an_overlay_without_a_deployment_fails() {
        assert_eq!(findings("kind: Namespace\n")[0].location, "deploy/b/controller.yaml");
    }
}
