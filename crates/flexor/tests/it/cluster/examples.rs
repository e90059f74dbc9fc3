//! Every example is applied to a real API server.

use std::path::{Path, PathBuf};

use flexor_testbed::{ClusterConfig, cluster_or_skip};

use super::installed::{in_repository, install, succeed};

fn manifests(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    files
}

/// Each dialect's examples on its own overlay, in the namespaces that the tutorials use.
#[tokio::test(flavor = "multi_thread")]
async fn every_example_is_applied_on_its_own_overlay() {
    let mut applied = 0;
    for dialect in ["dlrover", "torchelastic", "edl", "elasticdl"] {
        let cluster = cluster_or_skip!(ClusterConfig::default());
        // ElasticDL has no kinds.
        if dialect != "elasticdl" {
            install(&cluster, &format!("deploy/{dialect}")).await;
        }
        for file in manifests(Path::new(&in_repository(format!("examples/{dialect}")))) {
            let out = succeed(&mut cluster.kubectl(["apply", "-f", file.to_str().unwrap()]));
            assert!(out.contains("created") || out.contains("configured") || out.contains("unchanged"), "{out}");
            applied += 1;
        }
    }
    assert!(applied >= 20, "only {applied} files");
}
