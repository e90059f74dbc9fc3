//! Copies the logs of existing pods, before their removal deletes them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flexor_local::cluster::Cluster;
use flexor_model::DnsLabel;

use crate::output;

/// Copies the logs of all containers to `POD/CONTAINER.log`, or to `NAMESPACE/POD/CONTAINER.log` for namespaces other than
/// `default`.
pub fn copy(cluster: &Cluster, to: &Path) -> anyhow::Result<()> {
    for pod in cluster.pods() {
        let folder = folder(to, &pod.job.namespace, &pod.name);
        for container in pod.status.iter().flat_map(|status| &status.containers) {
            let log = cluster.state_dir().pod(&pod.uid).log(&container.name);
            let target = folder.join(format!("{}.log", container.name));
            let copied = fs::create_dir_all(&folder).and_then(|()| fs::copy(&log, &target).map(drop));
            match copied {
                // A container that never ran has no log.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                copied => copied.with_context(|| format!("the report: cannot write {}", target.display()))?,
            }
        }
    }
    Ok(())
}

/// The folder for the logs of a pod.
pub fn folder(logs: &Path, namespace: &DnsLabel, pod: &str) -> PathBuf {
    match namespace.as_str() {
        "default" => logs.join(pod),
        other => logs.join(other).join(pod),
    }
}

/// Copies the logs of a failed run into the state directory, replacing those of an earlier one. Returns their folder, or
/// `None` if they cannot be copied.
pub fn copy_of_failed_run(cluster: &Cluster) -> Option<PathBuf> {
    let folder = cluster.state_dir().logs_of_last_failure();
    let _ = fs::remove_dir_all(&folder);
    let created = DirBuilder::new().mode(0o700).create(&folder).context("cannot create the folder of the logs");
    match created.and_then(|()| copy(cluster, &folder)) {
        Ok(()) => Some(folder),
        Err(error) => {
            tracing::warn!("cannot copy the logs: {}", output::with_causes(&error));
            None
        }
    }
}
