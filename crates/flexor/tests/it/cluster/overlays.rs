//! Tests the columns of `kubectl get` with one overlay installed, and with all of them.

use std::fmt::Write;

use flexor_testbed::{ClusterConfig, cluster_or_skip};

use super::{
    installed::{in_repository, install, succeed, with_all_kinds},
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

/// DLRover's tutorials install with `make deploy IMG=…`.
#[tokio::test(flavor = "multi_thread")]
async fn make_deploys_the_given_image_and_refuses_dlrovers_own() {
    let cluster = cluster_or_skip!(ClusterConfig::default());
    let make = |target: &str, image: &str| {
        let mut make = cluster.command_in("make");
        make.args(["-C", &in_repository("tutorials/dlrover"), target, &format!("IMG={image}")]);
        make.arg(format!("KUBECTL={}", cluster.tools().kubectl().display()));
        make
    };
    for (image, says) in [
        ("easydl/elasticjob-controller:v0.1.1", "is DLRover's own controller"),
        ("flexor", "the image flexor has no tag"),
        ("", "no image is given"),
    ] {
        let refused = make("deploy", image).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(says), "{image}: {said}");
    }
    succeed(&mut make("deploy", "registry.example:5000/flexor:1.2"));
    let image = "jsonpath={.spec.template.spec.containers[0].image}";
    let deployment = ["-n", "dlrover", "get", "deployment", "dlrover-controller-manager", "-o", image];
    assert_eq!(succeed(&mut cluster.kubectl(deployment)), "registry.example:5000/flexor:1.2");
    succeed(&mut make("undeploy", ""));
    assert!(!cluster.kubectl(["get", "crd", "scaleplans.elastic.iml.github.io"]).output().unwrap().status.success());
}
