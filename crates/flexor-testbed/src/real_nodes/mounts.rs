//! Folders of the machine that every container of a node sees, whatever its pod says.
//!
//! containerd begins the specification of each container with a file, `base_runtime_spec`. Ours is containerd's default
//! with these mounts, and without limits: containerd removes those of its default only where there is no such file.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::packages;

/// A folder of the machine and its place in containers.
#[derive(Debug, Clone)]
pub(crate) struct NodeMount {
    pub(crate) host: PathBuf,
    pub(crate) container: PathBuf,
}

/// The content of that file.
pub(super) fn base_of_containers(mounts: &[NodeMount]) -> anyhow::Result<String> {
    let mut ctr = Command::new("ctr");
    let output = ctr.args(["oci", "spec"]).env("PATH", packages::search_path()).output().context("start ctr")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ctr prints no specification of containers: {}", complaint.trim());
    let default = serde_json::from_slice(&output.stdout).context("read what `ctr oci spec` printed")?;
    with_mounts(default, mounts)
}

fn with_mounts(mut specification: Value, mounts: &[NodeMount]) -> anyhow::Result<String> {
    if let Some(process) = specification["process"].as_object_mut() {
        process.remove("rlimits");
    }
    let all = specification["mounts"].as_array_mut().context("`ctr oci spec` printed no mounts")?;
    for mount in mounts {
        ensure!(mount.host.is_dir(), "{} cannot be mounted into containers: it is no folder", mount.host.display());
        all.push(json!({
            "destination": mount.container,
            "type": "bind",
            "source": mount.host,
            "options": ["rbind", "ro"],
        }));
    }
    Ok(specification.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_added_and_limits_removed() {
        let default = json!({ "process": { "cwd": "/", "rlimits": [1024] }, "mounts": [{ "destination": "/proc" }] });
        let mount = NodeMount { host: "/".into(), container: "/opt/all".into() };
        let written: Value = serde_json::from_str(&with_mounts(default, &[mount]).unwrap()).unwrap();
        let added = json!({ "destination": "/opt/all", "type": "bind", "source": "/", "options": ["rbind", "ro"] });
        assert_eq!(written, json!({ "process": { "cwd": "/" }, "mounts": [{ "destination": "/proc" }, added] }));
    }

    #[test]
    fn a_missing_folder_is_named() {
        let mount = NodeMount { host: "/no/such/folder".into(), container: "/opt/all".into() };
        let refused = with_mounts(json!({ "mounts": [] }), &[mount]).unwrap_err().to_string();
        assert_eq!(refused, "/no/such/folder cannot be mounted into containers: it is no folder");
    }
}
