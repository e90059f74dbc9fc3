//! The logs of the pods that are there, copied before they are removed with them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flexor_local::cluster::Cluster;
use flexor_model::DnsLabel;

use crate::output;

/// Copies the logs of all containers to `POD/CONTAINER.log`; pods of other namespaces than the usual are in a folder of
/// their namespace.
pub fn keep(cluster: &Cluster, to: &Path) -> anyhow::Result<()> {
    for pod in cluster.pods() {
        let folder = folder(to, &pod.job.namespace, &pod.name);
        for container in pod.status.iter().flat_map(|status| &status.containers) {
            let log = cluster.state_dir().pod(&pod.uid).log(&container.name);
            let copy = folder.join(format!("{}.log", container.name));
            let copied = fs::create_dir_all(&folder).and_then(|()| fs::copy(&log, &copy).map(drop));
            match copied {
                // A container that never ran has printed nothing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                copied => copied.with_context(|| format!("the report: {} cannot be written", copy.display()))?,
            }
        }
    }
    Ok(())
}

/// Where the logs of a pod are kept.
pub fn folder(logs: &Path, namespace: &DnsLabel, pod: &str) -> PathBuf {
    match namespace.as_str() {
        "default" => logs.join(pod),
        other => logs.join(other).join(pod),
    }
}

/// Keeps the logs of a run that has failed in the cluster's folder, in the place of those of an earlier one. Where they
/// are; nothing where they cannot be kept.
pub fn keep_last(cluster: &Cluster) -> Option<PathBuf> {
    let folder = cluster.state_dir().logs_of_last_failure();
    let _ = fs::remove_dir_all(&folder);
    match keep(cluster, &folder) {
        Ok(()) => Some(folder),
        Err(error) => {
            tracing::warn!("the logs cannot be kept: {}", output::with_causes(&error));
            None
        }
    }
}
