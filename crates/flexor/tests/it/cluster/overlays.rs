//! What `kubectl get` shows with one overlay installed, and with all.

use std::fmt::Write;

use flexor_testbed::{ClusterConfig, cluster_or_skip};

use super::installed::{in_repository, install, succeed, with_all_kinds};

/// Ages depend on when one looks.
fn without_age(table: &str) -> String {
    let mut lines = Vec::new();
    for line in table.lines() {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if words.last().is_some_and(|last| *last != "AGE" && last.ends_with('s')) {
            words.pop();
            words.push("*");
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_overlay_shows_its_users_the_columns_they_know() {
    let mut shown = String::new();
    for (overlay, examples, kinds) in [
        ("dlrover", &["torch-mnist", "scaleplan-0-workers"][..], &["elasticjob", "scaleplan", "dej", "dsp"][..]),
        ("torchelastic", &["imagenet"], &["elasticjob", "tej"]),
        ("edl", &["mnist1"], &["trainingjob", "tj"]),
    ] {
        let cluster = cluster_or_skip!(ClusterConfig::default());
        install(&cluster, &format!("deploy/{overlay}")).await;
        for example in examples {
            succeed(&mut cluster.kubectl([
                "apply",
                "-f",
                &in_repository(format!("examples/{overlay}/{example}.yaml")),
            ]));
        }
        for kind in kinds {
            let table = succeed(&mut cluster.kubectl(["get", kind, "--all-namespaces"]));
            let _ = writeln!(shown, "deploy/{overlay}$ kubectl get {kind} -A\n{}\n", without_age(&table));
        }
        let objects =
            succeed(&mut cluster.kubectl(["get", "deployment,serviceaccount", "--all-namespaces", "-o", "name"]));
        let _ = writeln!(shown, "deploy/{overlay}$ kubectl get deployment,serviceaccount -A -o name\n{objects}");
    }
    insta::assert_snapshot!(shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_all_kinds_installed_full_names_tell_them_apart() {
    let cluster = with_all_kinds(cluster_or_skip!()).await;
    let namespace = cluster.namespace("columns").await.unwrap();
    let mut shown = String::new();
    for file in ["dlrover/torch-mnist", "dlrover/scaleplan-0-workers", "torchelastic/imagenet", "edl/mnist1"] {
        let text = std::fs::read_to_string(in_repository(format!("examples/{file}.yaml"))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("manifest.yaml");
        let anywhere: Vec<&str> = text.lines().filter(|line| !line.starts_with("  namespace: ")).collect();
        std::fs::write(&copy, anywhere.join("\n")).unwrap();
        succeed(&mut namespace.kubectl(["apply", "-f", copy.to_str().unwrap()]));
    }
    for kind in [
        "elasticjobs.elastic.iml.github.io",
        "scaleplans.elastic.iml.github.io",
        "elasticjobs.elastic.pytorch.org",
        "trainingjobs.paddlepaddle.org",
        "elasticjob",
    ] {
        let table = succeed(&mut namespace.kubectl(["get", kind]));
        let _ = writeln!(shown, "kubectl get {kind}\n{}\n", without_age(&table));
    }
    insta::assert_snapshot!(shown);
}
