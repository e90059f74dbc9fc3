//! A cluster with real nodes that has every image of our manifests.

use flexor_testbed::images::{self, TORCH_FOLDER};
use flexor_testbed::{Cluster, ClusterConfig, Torch};
use tokio::sync::{Mutex, MutexGuard};

use crate::program::bin;

/// A cluster with real nodes keeps both cores of a small machine busy.
static TURN: Mutex<()> = Mutex::const_new(());

/// Waits for the turn of a test that starts a cluster.
pub async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// Real nodes on which the containers of the torch image find torch.
pub fn config(nodes: usize, torch: &Torch) -> ClusterConfig {
    let config = ClusterConfig::with_nodes([]).and_real_nodes(nodes);
    match images::torch_packages(torch) {
        Some(packages) => config.with_node_mount(packages, TORCH_FOLDER),
        None => config,
    }
}

/// Brings all images of the tutorials to the nodes.
pub fn add_images(cluster: &Cluster) {
    for (name, image) in images::of_tutorials(&bin()).unwrap() {
        cluster.add_image(&image, name).unwrap();
    }
}
