//! Starts a cluster with one overlay of `deploy/` installed.

use std::{path::Path, process::Command, time::Duration};

use flexor_testbed::{Cluster, await_list};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use tokio::sync::OnceCell;

use crate::program::root;

const DEADLINE: Duration = Duration::from_secs(30);

/// Installs all kinds into the shared cluster, once, however many tests ask.
pub async fn with_all_kinds(cluster: &'static Cluster) -> &'static Cluster {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    INSTALLED.get_or_init(|| install(cluster, "deploy/default")).await;
    cluster
}

/// Applies an overlay as its users do, and waits until its kinds can be used.
pub async fn install(cluster: &Cluster, overlay: &str) {
    let out = succeed(&mut cluster.kubectl(["apply", "-k", root().join(overlay).to_str().unwrap()]));
    let wanted = out.lines().filter(|line| line.starts_with("customresourcedefinition")).count();
    assert!(wanted > 0, "{out}");
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client().await.unwrap());
    let established =
        |crds: &[CustomResourceDefinition]| crds.iter().filter(|crd| is_established(crd)).count() == wanted;
    await_list(DEADLINE, api, "", "all definitions to be established", established).await.unwrap();
}

pub fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Runs a command that must succeed, and returns its output.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A file or folder of the repository, for kubectl.
pub fn in_repository(path: impl AsRef<Path>) -> String {
    root().join(path).to_str().unwrap().to_owned()
}

/// Applies a manifest.
pub fn apply_text(cluster: &Cluster, manifest: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("manifest.yaml");
    std::fs::write(&file, manifest).unwrap();
    succeed(&mut cluster.kubectl(["apply", "-f", file.to_str().unwrap()]));
}
