//! Tests machines without Go, and control planes that do not start.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use flexor_testbed::{Cluster, ClusterConfig, cache_dir, cluster_or_skip};

use crate::child_test;

#[tokio::test]
async fn without_go_a_test_is_skipped_and_says_what_to_install() {
    if child_test::is_child() {
        let cluster = cluster_or_skip!();
        panic!("there is no Go and nothing built, and yet {cluster:?}");
    }
    let empty = tempfile::tempdir().unwrap();
    let child = child_test::command("cluster::start_failures::without_go_a_test_is_skipped_and_says_what_to_install")
        .env("FLEXOR_CACHE", empty.path())
        .env("PATH", empty.path())
        .output()
        .unwrap();
    let printed = String::from_utf8(child.stdout).unwrap();
    assert!(child.status.success(), "{printed}");
    assert!(printed.contains("skipped: needs Go 1.26"), "{printed}");
    assert!(printed.contains("https://go.dev/dl"), "{printed}");
    let announced = String::from_utf8(child.stderr).unwrap();
    assert!(!announced.contains("building"), "nothing is announced that cannot be done: {announced}");
}

#[tokio::test]
async fn a_component_that_dies_at_start_is_named_with_the_end_of_its_log() {
    if child_test::is_child() {
        let error = Cluster::start(ClusterConfig::default()).await.unwrap_err();
        println!("{error:#}");
        return;
    }
    let _shared = cluster_or_skip!();
    let cache = tempfile::tempdir().unwrap();
    copy_as_links(&cache_dir().unwrap().join("tools"), &cache.path().join("tools"));
    replace_api_server(cache.path(), "#!/bin/sh\necho flag provided but not defined\nexit 2\n");
    let child =
        child_test::command("cluster::start_failures::a_component_that_dies_at_start_is_named_with_the_end_of_its_log")
            .env("FLEXOR_CACHE", cache.path())
            .output()
            .unwrap();
    let printed = String::from_utf8(child.stdout).unwrap();
    assert!(printed.contains("kube-apiserver ended (exit status: 2)"), "{printed}");
    assert!(printed.contains("flag provided but not defined"), "{printed}");
}

/// The same folders with links instead of the files.
fn copy_as_links(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_as_links(&entry.path(), &target);
        } else {
            symlink(entry.path(), target).unwrap();
        }
    }
}

fn replace_api_server(cache: &Path, script: &str) {
    for build in fs::read_dir(cache.join("tools/kubernetes")).unwrap().flatten() {
        let program = build.path().join("kube-apiserver");
        if fs::remove_file(&program).is_ok() {
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
}
