//! The clusters that all tests of a process share.
//!
//! They are in statics and are never dropped. The end of the process closes their life lines. A failed start is not
//! retried, so that every test reports the same reason at once.

use tokio::sync::OnceCell;

use super::{Cluster, ClusterConfig};
use crate::nodes::NodeGroup;

static SHARED: OnceCell<anyhow::Result<Cluster>> = OnceCell::const_new();

static WITH_REAL_NODES: OnceCell<anyhow::Result<Cluster>> = OnceCell::const_new();

/// The shared cluster with fake nodes only.
pub(super) async fn get() -> Result<&'static Cluster, &'static anyhow::Error> {
    SHARED.get_or_init(|| Cluster::start(ClusterConfig::default())).await.as_ref()
}

/// The shared cluster with real nodes.
pub(super) async fn get_with_real_nodes() -> Result<&'static Cluster, &'static anyhow::Error> {
    let start = || {
        let fake = NodeGroup::new("fake", 2);
        Cluster::start(ClusterConfig::with_nodes([fake]).and_real_nodes(2))
    };
    WITH_REAL_NODES.get_or_init(start).await.as_ref()
}
