//! Compiles the test programs of the workspace, once. [`super::program`] runs them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::compile::{self, Artifact};

/// A compiled test program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TestProgram {
    /// The package's folder name, which is its name here.
    pub(super) package: String,
    /// `lib`, a binary's name, or an integration test's name.
    pub(super) target: String,
    pub(super) kind: ProgramKind,
    pub(super) executable: PathBuf,
    /// The package's folder: where cargo runs its tests too.
    pub(super) folder: PathBuf,
    /// The checkout. A test program must not remember it from compile time: another checkout with the same target
    /// folder may have compiled it.
    pub(super) checkout: PathBuf,
}

/// Where a test program's sources are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// Tests inside a library or a binary.
    Unit,
    /// A target below `tests/`.
    Integration,
}

/// Everything that one build of the workspace's tests gives.
pub(super) struct Build {
    /// The program itself. Cargo builds it with its integration tests, so no second build is needed.
    pub(super) flexor: PathBuf,
    pub(super) programs: Vec<TestProgram>,
}

/// Builds every test program of the workspace.
pub(super) fn workspace(root: &Path) -> Result<Build> {
    let artifacts = compile::run(root, "flexor and its tests", &["test", "--workspace", "--no-run"])?;
    let is_flexor = |artifact: &&Artifact| {
        !artifact.profile.test
            && artifact.target.name == "flexor"
            && artifact.target.kind.iter().any(|kind| kind == "bin")
    };
    let flexor = artifacts.iter().find(is_flexor).and_then(|artifact| artifact.executable.clone());
    let flexor = flexor.context("cargo built no program called flexor")?;
    let mut programs: Vec<_> =
        artifacts.into_iter().filter_map(|artifact| TestProgram::from_artifact(root, artifact)).collect();
    programs.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok(Build { flexor, programs })
}

impl TestProgram {
    fn from_artifact(root: &Path, artifact: Artifact) -> Option<TestProgram> {
        let executable = artifact.executable.filter(|_| artifact.profile.test)?;
        let folder = artifact.manifest_path.parent()?.to_owned();
        let has_kind = |kind: &str| artifact.target.kind.iter().any(|known| known == kind);
        let kind = if has_kind("test") { ProgramKind::Integration } else { ProgramKind::Unit };
        let target = if has_kind("lib") { "lib".to_owned() } else { artifact.target.name };
        let package = folder.file_name()?.to_string_lossy().into_owned();
        Some(TestProgram { package, target, kind, executable, folder, checkout: root.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(kind: &str, name: &str, test: bool) -> Option<TestProgram> {
        let line = format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/c/flexor-model/Cargo.toml","executable":"/t/x",
                "target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}}}}"#
        );
        TestProgram::from_artifact(Path::new("/c"), compile::artifact(&line).unwrap().unwrap())
    }

    #[test]
    fn integration_tests_and_unit_tests_are_distinguished() {
        let integration = program("test", "it", true).unwrap();
        assert_eq!((integration.kind, integration.target.as_str()), (ProgramKind::Integration, "it"));
        let unit = program("lib", "flexor_model", true).unwrap();
        assert_eq!(
            (unit.kind, unit.target.as_str(), unit.package.as_str()),
            (ProgramKind::Unit, "lib", "flexor-model")
        );
        assert_eq!(unit.folder, Path::new("/c/flexor-model"));
    }

    #[test]
    fn a_program_without_tests_is_none() {
        assert_eq!(program("bin", "flexor", false), None);
    }
}
