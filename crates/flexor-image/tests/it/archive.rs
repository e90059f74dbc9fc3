//! An archive is what `docker load` and `ctr images import` expect, and the same image gives the same bytes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flexor_image::Digest;
use serde_json::{Value, json};

use crate::fixture::{self, LAYER, listed, name};

fn entries(archive: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut entries = BTreeMap::new();
    for entry in tar::Archive::new(File::open(archive).unwrap()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        entries.insert(entry.path().unwrap().display().to_string(), bytes);
    }
    entries
}

#[test]
fn the_manifest_names_the_config_and_the_layer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("greet.tar");
    let summary = fixture::image().write_docker_archive(&path, &name("greet:2")).unwrap();
    let entries = entries(&path);
    let config_name = format!("{}.json", summary.image_id.hex());
    let manifest: Value = serde_json::from_slice(&entries["manifest.json"]).unwrap();
    assert_eq!(manifest, json!([{ "Config": config_name, "RepoTags": ["greet:2"], "Layers": ["layer.tar"] }]));
    assert_eq!(Digest::of(&entries[&config_name]), summary.image_id);
    let config: Value = serde_json::from_slice(&entries[&config_name]).unwrap();
    assert_eq!(config["rootfs"]["diff_ids"], json!([Digest::of(&entries["layer.tar"])]));
    assert_eq!(listed(entries["layer.tar"].as_slice()), LAYER);
    assert_eq!(entries.len(), 3);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn the_same_image_gives_the_same_bytes_and_the_id_of_the_layout() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["a.tar", "b.tar"].map(|file| {
        let path = folder.path().join(file);
        let summary = fixture::image().write_docker_archive(&path, &name("greet")).unwrap();
        (summary.image_id, fs::read(path).unwrap())
    });
    assert_eq!(first, second);
    let layout = fixture::image().write_layout(&folder.path().join("layout"), &name("greet")).unwrap();
    assert_eq!(layout.image_id, first.0);
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/greet.tar");
    let refused = fixture::image().write_docker_archive(&path, &name("greet")).unwrap_err().to_string();
    assert_eq!(refused, format!("cannot write {}: No such file or directory (os error 2)", path.display()));
}
