//! `cargo xtask cluster load`: images for the real nodes of a cluster that is up.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Args;
use flexor_testbed::import_into_node;

use super::state::ClusterState;

/// Arguments of `cargo xtask cluster load`.
#[derive(Args)]
pub(super) struct LoadArgs {
    /// An archive of `cargo xtask image` or `docker save`, or an OCI layout as a tar file
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
}

/// Imports the archive into all real nodes, one after the other: each needs the disk for itself.
pub(super) fn load(state: &ClusterState, args: &LoadArgs) -> Result<()> {
    let archive = &args.archive;
    ensure!(archive.is_file(), "no archive {}; `cargo xtask image` makes one of Flexor", archive.display());
    if state.real_nodes.is_empty() {
        bail!(
            "this cluster's nodes are fake and have no images; `cargo xtask cluster up --real-nodes 2` starts real ones"
        );
    }
    for node in &state.real_nodes {
        let images = import_into_node(&node.name, node.namespace_pid, archive)?;
        println!("{} has {}", node.name, images.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fake_nodes_take_no_images() {
        let archive = std::env::current_exe().unwrap();
        let state = ClusterState::example();
        let refused = load(&state, &LoadArgs { archive }).unwrap_err().to_string();
        assert!(refused.contains("--real-nodes"), "{refused}");
        let missing = load(&state, &LoadArgs { archive: "/no/such/flexor.tar".into() }).unwrap_err().to_string();
        assert_eq!(missing, "no archive /no/such/flexor.tar; `cargo xtask image` makes one of Flexor");
    }
}
