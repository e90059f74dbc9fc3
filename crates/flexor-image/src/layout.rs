//! An image as an OCI layout: a folder with `oci-layout`, `index.json` and blobs named by their digests.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};

use crate::digest::Digester;
use crate::{Digest, Image, ImageError, ImageName, Summary, layer};

pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The file that tells a layout from other folders.
const MARKER: &str = "oci-layout";
/// In the header of a gzip stream: no operating system is named.
const UNKNOWN_SYSTEM: u8 = 255;

/// A part of the image in the folder.
pub(crate) struct Blob {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) path: PathBuf,
    media_type: &'static str,
}

/// A layout that was written.
pub(crate) struct Layout {
    pub(crate) layer: Blob,
    pub(crate) config: Blob,
    pub(crate) manifest: Blob,
}

impl Layout {
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            image_id: self.config.digest.clone(),
            manifest: Some(self.manifest.digest.clone()),
            size: self.layer.size + self.config.size + self.manifest.size,
        }
    }
}

/// Writes a layout with one image in place of an earlier layout, an empty folder, or nothing.
pub(crate) fn replace(image: &Image, folder: &Path, name: &ImageName) -> Result<Layout, ImageError> {
    let is_layout = folder.join(MARKER).is_file();
    let is_occupied = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => folder.exists(),
    };
    if is_occupied && !is_layout {
        return Err(ImageError::OccupiedFolder { folder: folder.to_owned() });
    }
    if is_layout {
        for entry in ["blobs", "index.json", MARKER] {
            remove(&folder.join(entry))?;
        }
    }
    write(image, folder, name)
}

/// Writes a layout into a folder that has none.
pub(crate) fn write(image: &Image, folder: &Path, name: &ImageName) -> Result<Layout, ImageError> {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(ImageError::io("create", &blobs))?;
    let (layer, diff_id) = write_layer(image, &blobs)?;
    let config = write_blob(&blobs, image.config.document(&diff_id), CONFIG_TYPE)?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor(&config),
        "layers": [descriptor(&layer)],
    });
    let manifest = write_blob(&blobs, manifest.to_string().into_bytes(), MANIFEST_TYPE)?;
    let mut listed = descriptor(&manifest);
    listed["annotations"] = json!({
        "io.containerd.image.name": name.as_str(),
        "org.opencontainers.image.ref.name": name.tag(),
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [listed] });
    write_file(&folder.join("index.json"), index.to_string().as_bytes())?;
    write_file(&folder.join(MARKER), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(Layout { layer, config, manifest })
}

/// The compressed layer, and the digest of its uncompressed tar.
fn write_layer(image: &Image, blobs: &Path) -> Result<(Blob, Digest), ImageError> {
    let unnamed = blobs.join("layer.part");
    let failed = || ImageError::io("write", &unnamed);
    let file = BufWriter::new(File::create(&unnamed).map_err(failed())?);
    let gzip = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM);
    let gzip = gzip.write(Digester::new(file), Compression::new(6));
    let (gzip, diff_id, _) = layer::write(&image.files, Digester::new(gzip), &unnamed)?.finish();
    let (mut file, digest, size) = gzip.finish().map_err(failed())?.finish();
    file.flush().map_err(failed())?;
    let path = blobs.join(digest.hex());
    fs::rename(&unnamed, &path).map_err(failed())?;
    Ok((Blob { digest, size, path, media_type: LAYER_TYPE }, diff_id))
}

fn write_blob(blobs: &Path, bytes: Vec<u8>, media_type: &'static str) -> Result<Blob, ImageError> {
    let digest = Digest::of(&bytes);
    let path = blobs.join(digest.hex());
    write_file(&path, &bytes)?;
    Ok(Blob { digest, size: bytes.len() as u64, path, media_type })
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ImageError> {
    fs::write(path, bytes).map_err(ImageError::io("write", path))
}

fn remove(path: &Path) -> Result<(), ImageError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(ImageError::io("remove", path)),
    }
}

fn descriptor(blob: &Blob) -> Value {
    json!({ "mediaType": blob.media_type, "digest": blob.digest, "size": blob.size })
}
