//! The images of a node: imported from archives, because no registry is reachable.

use std::{fs::File, path::Path, process::Command};

use anyhow::{Context as _, ensure};

use super::{config::CONTAINERD_SOCKET, packages};
use crate::keeper::Sandbox;

/// The namespace of containerd that the kubelet uses.
const IMAGE_NAMESPACE: &str = "k8s.io";

/// Imports the images of an archive (`docker save` or OCI layout, as a tar file) into the node `node`, which another
/// process may own, and returns their names. The node is found by [`RealNode::namespace_pid`](super::RealNode).
pub fn import_into_node(node: &str, namespace_pid: u32, archive: &Path) -> anyhow::Result<Vec<String>> {
    import(&Sandbox::namespaces(namespace_pid)?, node, archive)
}

/// The same in a sandbox that is known to be the node's.
pub(super) fn import(sandbox: &Sandbox, node: &str, archive: &Path) -> anyhow::Result<Vec<String>> {
    let file = File::open(archive).with_context(|| format!("open {}", archive.display()))?;
    let mut command = ctr(sandbox);
    // By its content: the file's path may mean another file in the node's mount namespace.
    let output = command.args(["images", "import", "-"]).stdin(file).output().context("start ctr")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot import {} into {node}: {}", archive.display(), complaint.trim());
    Ok(imported(&String::from_utf8_lossy(&output.stdout)))
}

/// The client of the node's containerd.
pub(super) fn ctr(sandbox: &Sandbox) -> Command {
    let mut command = sandbox.owned_command("ctr".as_ref());
    command.env("PATH", packages::search_path());
    command.args(["--address", CONTAINERD_SOCKET, "--namespace", IMAGE_NAMESPACE]);
    command
}

/// The names in lines such as `unpacking docker.io/library/flexor:latest (sha256:…)...done`.
fn imported(output: &str) -> Vec<String> {
    let names = output.lines().filter_map(|line| line.trim().strip_prefix("unpacking ")?.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_that_ctr_unpacks() {
        let output = "unpacking docker.io/library/flexor:latest (sha256:0a1b)...done\nother line\n";
        assert_eq!(imported(output), ["docker.io/library/flexor:latest"]);
    }
}
