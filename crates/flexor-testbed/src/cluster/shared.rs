//! The one cluster that all tests of a process share.
//!
//! It is in a static and is never dropped. The end of the process closes its life line.

use tokio::sync::OnceCell;

use super::{Cluster, ClusterConfig};

static SHARED: OnceCell<anyhow::Result<Cluster>> = OnceCell::const_new();

/// The shared cluster. A failed start is not retried, so that every test reports the same reason at once.
pub(super) async fn get() -> Result<&'static Cluster, &'static anyhow::Error> {
    SHARED.get_or_init(|| Cluster::start(ClusterConfig::default())).await.as_ref()
}
