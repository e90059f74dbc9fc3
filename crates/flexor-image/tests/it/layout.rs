//! A layout is what the OCI specification says, and the same image gives the same bytes.

use std::fs;
use std::path::Path;

use flate2::read::GzDecoder;
use flexor_image::Digest;
use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest, MediaType, OciLayout};

use crate::fixture::{self, LAYER, listed, name};

/// The bytes of a blob, whose digest and size must be those of its descriptor.
fn blob(folder: &Path, descriptor: &Descriptor) -> Vec<u8> {
    let bytes = fs::read(folder.join("blobs/sha256").join(descriptor.digest().digest())).unwrap();
    assert_eq!(Digest::of(&bytes).to_string(), descriptor.digest().to_string());
    assert_eq!(bytes.len() as u64, descriptor.size());
    bytes
}

#[test]
fn every_part_is_found_by_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let summary = fixture::image().write_layout(folder.path(), &name("registry.example/greet:2")).unwrap();

    let marker = OciLayout::from_file(folder.path().join("oci-layout")).unwrap();
    assert_eq!(marker.image_layout_version(), "1.0.0");
    let index = ImageIndex::from_file(folder.path().join("index.json")).unwrap();
    let [listed_manifest] = index.manifests().as_slice() else { panic!("{index:?}") };
    let annotations = listed_manifest.annotations().clone().unwrap();
    assert_eq!(annotations["org.opencontainers.image.ref.name"], "2");
    assert_eq!(annotations["io.containerd.image.name"], "registry.example/greet:2");
    assert_eq!(listed_manifest.digest().to_string(), summary.manifest.unwrap().to_string());

    let manifest = ImageManifest::from_reader(blob(folder.path(), listed_manifest).as_slice()).unwrap();
    assert_eq!(manifest.media_type(), &Some(MediaType::ImageManifest));
    assert_eq!(manifest.config().digest().to_string(), summary.image_id.to_string());
    let config = ImageConfiguration::from_reader(blob(folder.path(), manifest.config()).as_slice()).unwrap();
    let container = config.config().clone().unwrap();
    assert_eq!(container.user().as_deref(), Some("65532:65532"));
    assert_eq!(container.entrypoint(), &Some(vec!["/usr/bin/greet".to_owned()]));
    assert_eq!(container.labels().clone().unwrap()["a"], "1");

    let [layer] = manifest.layers().as_slice() else { panic!("{manifest:?}") };
    assert_eq!(layer.media_type(), &MediaType::ImageLayerGzip);
    let compressed = blob(folder.path(), layer);
    let mut tar = Vec::new();
    std::io::copy(&mut GzDecoder::new(compressed.as_slice()), &mut tar).unwrap();
    assert_eq!(config.rootfs().diff_ids(), &[Digest::of(&tar).to_string()]);
    assert_eq!(listed(tar.as_slice()), LAYER);

    let sizes = [listed_manifest.size(), manifest.config().size(), layer.size()];
    assert_eq!(summary.size, sizes.iter().sum::<u64>());
    let blobs = fs::read_dir(folder.path().join("blobs/sha256")).unwrap();
    assert_eq!(blobs.count(), 3, "no part of the work is left behind");
}

#[test]
fn the_same_image_has_the_same_digest_and_another_has_not() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = folders.each_ref().map(|folder| {
        let summary = fixture::image().write_layout(folder.path(), &name("greet")).unwrap();
        (summary, fs::read(folder.path().join("index.json")).unwrap())
    });
    assert_eq!(first, second);

    let mut changed = fixture::image();
    changed.files.file("/etc/motd", "welcome\n", 0o644).unwrap();
    let changed = changed.write_layout(folders[0].path(), &name("greet")).unwrap();
    assert_ne!((changed.image_id, changed.manifest), (first.0.image_id, first.0.manifest));
}

#[test]
fn a_layout_is_replaced_and_any_other_folder_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut image = fixture::image();
    image.write_layout(folder.path(), &name("greet")).unwrap();
    image.files.file("/more", "more", 0o644).unwrap();
    image.write_layout(folder.path(), &name("greet")).unwrap();
    assert_eq!(fs::read_dir(folder.path().join("blobs/sha256")).unwrap().count(), 3);

    let precious = tempfile::tempdir().unwrap();
    fs::write(precious.path().join("index.json"), "mine").unwrap();
    let refused = image.write_layout(precious.path(), &name("greet")).unwrap_err().to_string();
    assert_eq!(refused, format!("{} is not empty and no OCI layout; name a new folder", precious.path().display()));
    assert_eq!(fs::read(precious.path().join("index.json")).unwrap(), b"mine");
}
