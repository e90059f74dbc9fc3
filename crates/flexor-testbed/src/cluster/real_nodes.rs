//! The real nodes of a cluster, for tests: images for all of them, and single nodes to break.

use std::path::Path;

use anyhow::{Context as _, ensure};
use flexor_image::Image;

use super::Cluster;
use crate::real_nodes::{RealNode, RealNodes};

impl Cluster {
    /// The real nodes; none unless [`ClusterConfig::and_real_nodes`](super::ClusterConfig::and_real_nodes) asked.
    pub fn real_nodes(&self) -> &[RealNode] {
        self.real_nodes.as_ref().map(RealNodes::all).unwrap_or_default()
    }

    /// A real node by its name.
    pub fn real_node(&self, name: &str) -> anyhow::Result<&RealNode> {
        self.real_nodes().iter().find(|node| node.name() == name).with_context(|| format!("no real node '{name}'"))
    }

    /// Imports the images of an archive (`docker save` or OCI layout, as a tar file) into every real node.
    pub fn import_image(&self, archive: &Path) -> anyhow::Result<()> {
        let nodes = self.real_nodes();
        ensure!(!nodes.is_empty(), "only real nodes have images");
        std::thread::scope(|scope| {
            let imports: Vec<_> = nodes.iter().map(|node| scope.spawn(|| node.import_image(archive))).collect();
            imports.into_iter().try_for_each(|import| match import.join() {
                Ok(imported) => imported,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }

    /// Puts an image under this name on every real node. Pods that name it need `imagePullPolicy: IfNotPresent` or
    /// `Never`.
    pub fn add_image(&self, image: &Image, name: &str) -> anyhow::Result<()> {
        let folder = tempfile::tempdir_in(self.folder()).context("make a folder for an image")?;
        let archive = folder.path().join("image.tar");
        image.write_docker_archive(&archive, &name.parse()?)?;
        self.import_image(&archive)
    }

    /// Evicts all pods of a node as `kubectl drain` does, and lets no new ones in.
    pub fn drain(&self, node: &str) -> anyhow::Result<()> {
        let args = ["drain", node, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s"];
        let output = self.kubectl(args).output().context("start kubectl")?;
        ensure!(output.status.success(), "cannot drain {node}: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    /// Lets new pods onto a drained node.
    pub fn uncordon(&self, node: &str) -> anyhow::Result<()> {
        let output = self.kubectl(["uncordon", node]).output().context("start kubectl")?;
        ensure!(output.status.success(), "cannot uncordon {node}: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }
}
