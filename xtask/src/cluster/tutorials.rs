//! What the tutorials need on real nodes: the images that their manifests name, and torch for the containers.

use std::path::PathBuf;

use anyhow::{Context, Result};
use flexor_testbed::images::{self, TORCH_FOLDER};
use flexor_testbed::{Cluster, ClusterConfig, Torch};

use crate::image::build::static_flexor;
use crate::tree::project_root;

/// Builds and downloads what takes minutes the first time, where its progress can be seen.
pub(super) fn prepare() -> Result<()> {
    flexor()?;
    images::prepare()?;
    torch_packages().map(|_| ())
}

/// A cluster whose containers find torch.
pub(super) fn with_torch(config: ClusterConfig) -> Result<ClusterConfig> {
    Ok(config.with_node_mount(torch_packages()?, TORCH_FOLDER))
}

/// Brings the images to the nodes.
pub(super) fn add_images(cluster: &Cluster) -> Result<()> {
    for (name, image) in images::of_tutorials(&flexor()?)? {
        cluster.add_image(&image, name)?;
    }
    Ok(())
}

fn flexor() -> Result<PathBuf> {
    static_flexor(&project_root()?)
}

fn torch_packages() -> Result<PathBuf> {
    images::torch_packages(&Torch::ensure()?)
        .context("needs Python 3.11 as `python3`: the containers have that version")
}
