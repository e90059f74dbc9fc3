//! Every example is applied to a real API server.

use flexor_testbed::{ClusterConfig, cluster_or_skip};

use super::{
    installed::{install, succeed},
    manifests::{definitions, dialects_below, manifests_in},
};

/// Applies each dialect's examples on its own overlay, in the namespaces of the tutorials. Programs with jobs of
/// several dialects go to the overlay with all kinds.
#[tokio::test(flavor = "multi_thread")]
async fn every_example_is_applied_on_its_own_overlay() {
    let with_kinds = definitions();
    for dialect in dialects_below("examples") {
        let cluster = cluster_or_skip!(ClusterConfig::default());
        // ElasticDL's jobs are command lines: they need no kinds.
        let overlay = match dialect.as_str() {
            "elasticdl" => None,
            // The jobs of DLRover's tutorial once more, in its namespace.
            "deepctr" => Some("dlrover"),
            known if with_kinds.contains_key(known) => Some(known),
            _ => Some("default"),
        };
        if let Some(overlay) = overlay {
            install(&cluster, &format!("deploy/{overlay}")).await;
        }
        for file in manifests_in(format!("examples/{dialect}")) {
            let out = succeed(&mut cluster.kubectl(["apply", "-f", file.path.to_str().unwrap()]));
            assert!(out.contains("created") || out.contains("configured") || out.contains("unchanged"), "{out}");
        }
    }
}
