//! The workspace's packages as cargo sees them.
//!
//! `tidy` reads dependencies and licences from here, `test` and `fuzz` the cargo to call. Versions and features stay
//! cargo's business.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// One package: of the workspace, or one that it is built from.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The licence as its manifest states it.
    pub(crate) license: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One dependency as the manifest states it.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    #[serde(rename = "kind", default)]
    pub(crate) used: DependencyKind,
}

/// The kind of a dependency. Cargo writes `null` for the normal kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DependencyKind {
    #[default]
    Normal,
    Build,
    Tests,
}

impl<'de> Deserialize<'de> for DependencyKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<DependencyKind, D::Error> {
        match Option::<String>::deserialize(deserializer)?.as_deref() {
            None | Some("normal") => Ok(DependencyKind::Normal),
            Some("build") => Ok(DependencyKind::Build),
            Some("dev") => Ok(DependencyKind::Tests),
            Some(other) => Err(serde::de::Error::custom(format!("unknown kind of dependency '{other}'"))),
        }
    }
}

/// Reads the packages of the workspace at `root`, in cargo's order.
pub(crate) fn read(root: &Path) -> Result<Vec<Package>> {
    metadata(root, &["--no-deps", "--offline"])
}

/// Reads the packages of the workspace and all that `Cargo.lock` names, for every platform. Cargo may have to download
/// packages of other platforms.
pub(crate) fn read_with_dependencies(root: &Path) -> Result<Vec<Package>> {
    metadata(root, &["--locked"])
}

fn metadata(root: &Path, options: &[&str]) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = cargo()
        .args(["metadata", "--format-version=1"])
        .args(options)
        .current_dir(root)
        .output()
        .context("cannot start cargo metadata")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed in {}: {}", root.display(), complaint.trim());
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cannot read what cargo metadata wrote")?;
    Ok(metadata.packages)
}

/// The cargo that runs this program, or the one on the path.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
