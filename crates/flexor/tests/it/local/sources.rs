//! Tests the inputs of `flexor validate`: files, folders, links, and standard input.

use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
};

use super::manifests::GOOD;
use crate::program::{ProgramOutput, run, run_with_input};

fn validate(path: &Path) -> ProgramOutput {
    run(&["validate", path.to_str().unwrap()])
}

#[test]
fn unreadable_files_are_reported_and_the_rest_is_validated() {
    let empty = tempfile::tempdir().unwrap();
    let ran =
        run(&["validate", "no-such-file.yaml", empty.path().to_str().unwrap(), "examples/torchelastic/imagenet.yaml"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stdout.contains("no-such-file.yaml: error: No such file or directory [UnreadableInput]\n"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("holds no .yaml, .yml or .json file"), "{}", ran.stdout);
    assert!(ran.stdout.contains("ElasticJob imagenet (torchelastic)"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "1 accepted, 0 refused, 2 unreadable, 0 warnings\n");
}

/// A folder may hold other YAML; a file that is named must be a manifest.
#[test]
fn yaml_that_is_no_manifest_fails_only_where_it_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("values.yaml");
    fs::write(&other, "replicas: 3\n").unwrap();
    let ran = validate(folder.path());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "0 accepted, 0 refused, 1 skipped, 0 warnings\n"));
    assert!(ran.stdout.ends_with("values.yaml:1: document: skipped: not a Kubernetes object\n"), "{}", ran.stdout);
    assert_eq!(validate(&other).code, 1);
}

#[test]
fn a_manifest_without_api_version_is_refused_in_a_folder_too() {
    let folder = tempfile::tempdir().unwrap();
    let forgotten: String = GOOD.lines().skip(1).map(|line| format!("{line}\n")).collect();
    fs::write(folder.path().join("job.yaml"), forgotten).unwrap();
    assert_eq!(validate(folder.path()).code, 1);
}

/// The kubelet mounts a ConfigMap as links to `..data/NAME`, where `..data` is a link to a folder with a date.
#[test]
fn the_files_of_a_mounted_config_map_are_found_once() {
    let mount = tempfile::tempdir().unwrap();
    fs::create_dir(mount.path().join("..2026_01_01")).unwrap();
    fs::write(mount.path().join("..2026_01_01/job.yaml"), GOOD).unwrap();
    symlink("..2026_01_01", mount.path().join("..data")).unwrap();
    symlink("..data/job.yaml", mount.path().join("job.yaml")).unwrap();
    let ran = validate(mount.path());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "1 accepted, 0 refused, 0 warnings\n"), "{}", ran.stdout);
}

#[test]
fn links_to_folders_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("job.yaml"), GOOD).unwrap();
    symlink(".", folder.path().join("again")).unwrap();
    assert_eq!(validate(folder.path()).stderr, "1 accepted, 0 refused, 0 warnings\n");
}

#[test]
fn entries_of_a_folder_that_cannot_be_read_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    symlink("gone.yaml", folder.path().join("dangling.yaml")).unwrap();
    symlink("loop.yaml", folder.path().join("loop.yaml")).unwrap();
    symlink("gone", folder.path().join("of-no-interest")).unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket.yaml")).unwrap();
    let ran = validate(folder.path());
    assert_eq!((ran.code, ran.stderr.as_str()), (1, "0 accepted, 0 refused, 3 unreadable, 0 warnings\n"));
    for line in [
        "dangling.yaml: error: is a link to a file that does not exist [UnreadableInput]\n",
        "loop.yaml: error: Too many levels of symbolic links [UnreadableInput]\n",
        "socket.yaml: error: is not a regular file; name it to have it read [UnreadableInput]\n",
    ] {
        assert!(ran.stdout.contains(line), "{}", ran.stdout);
    }
}

#[test]
fn folders_are_searched_32_deep_and_deeper_ones_are_reported() {
    let top = tempfile::tempdir().unwrap();
    let below = |levels: usize| (0..levels).fold(top.path().to_owned(), |path, _| path.join("d"));
    fs::create_dir_all(below(31)).unwrap();
    fs::write(below(31).join("job.yaml"), GOOD).unwrap();
    assert_eq!(validate(top.path()).stderr, "1 accepted, 0 refused, 0 warnings\n");
    fs::create_dir(below(32)).unwrap();
    let ran = validate(top.path());
    assert_eq!((ran.code, ran.stderr.as_str()), (1, "1 accepted, 0 refused, 1 unreadable, 0 warnings\n"));
    assert!(ran.stdout.contains("lies 32 folders deep and is not searched"), "{}", ran.stdout);
}

#[test]
fn extensions_are_known_in_any_case_and_hidden_files_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".git")).unwrap();
    for name in ["a.YAML", "b.Yml", "c.JSON", ".hidden.yaml", ".git/d.yaml", "notes.txt"] {
        fs::write(folder.path().join(name), if name == "c.JSON" { "{}" } else { GOOD }).unwrap();
    }
    assert_eq!(validate(folder.path()).stderr, "2 accepted, 0 refused, 1 skipped, 0 warnings\n");
}

#[test]
fn a_file_without_documents_is_listed_as_empty_and_is_no_failure() {
    let ran = run_with_input(&["validate", "-"], b"# nothing\n---\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "standard input: empty\n"));
    assert_eq!(ran.stderr, "0 accepted, 0 refused, 1 empty, 0 warnings\n");
}

#[test]
fn an_input_without_end_is_refused() {
    let ran = run(&["validate", "/dev/zero"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (1, "/dev/zero: error: is larger than 64 MiB, so it is not a manifest [UnreadableInput]\n")
    );
}
