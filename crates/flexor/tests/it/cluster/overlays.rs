//! Tests the columns of `kubectl get` with one overlay installed, and with all of them.

use std::fmt::Write;

use flexor_testbed::{ClusterConfig, cluster_or_skip};

use super::{
    installed::{install, succeed, with_all_kinds},
    manifests::{definitions, example_of},
};

/// Ages depend on the time of the listing.
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
    for (overlay, definitions) in definitions() {
        let cluster = cluster_or_skip!(ClusterConfig::default());
        install(&cluster, &format!("deploy/{overlay}")).await;
        for definition in &definitions {
            let example = example_of(overlay, definition).path;
            succeed(&mut cluster.kubectl(["apply", "-f", example.to_str().unwrap()]));
            let names = &definition.spec.names;
            for name in names.singular.iter().chain(names.short_names.iter().flatten()) {
                let table = succeed(&mut cluster.kubectl(["get", name, "--all-namespaces"]));
                let _ = writeln!(shown, "deploy/{overlay}$ kubectl get {name} -A\n{}\n", without_age(&table));
            }
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
    // The short name that two dialects share comes last.
    let mut names = Vec::new();
    for (dialect, definitions) in definitions() {
        for definition in definitions {
            let folder = tempfile::tempdir().unwrap();
            let copy = folder.path().join("manifest.yaml");
            std::fs::write(&copy, example_of(dialect, &definition).without_namespace()).unwrap();
            succeed(&mut namespace.kubectl(["apply", "-f", copy.to_str().unwrap()]));
            names.extend(definition.metadata.name);
        }
    }
    names.push("elasticjob".to_owned());
    for name in names {
        let table = succeed(&mut namespace.kubectl(["get", &name]));
        let _ = writeln!(shown, "kubectl get {name}\n{}\n", without_age(&table));
    }
    insta::assert_snapshot!(shown);
}
