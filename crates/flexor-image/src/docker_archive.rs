//! An image as the archive of `docker save`: `manifest.json`, the config, and the layer as a plain tar.
//!
//! The layer is not compressed: the archive is for loading on a machine, where compression only costs time.

use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

use serde_json::json;
use tar::{Builder, EntryType};

use crate::digest::Digester;
use crate::{Digest, Image, ImageError, ImageName, Summary, layer};

const LAYER: &str = "layer.tar";
const FILE_MODE: u32 = 0o644;

/// Writes the archive. It has its name only when it is complete.
pub(crate) fn write(image: &Image, path: &Path, name: &ImageName) -> Result<Summary, ImageError> {
    let failed = || ImageError::io("write", path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let layer = BufWriter::new(tempfile::tempfile_in(folder).map_err(failed())?);
    let (layer, diff_id, layer_size) = layer::write(&image.files, Digester::new(layer), path)?.finish();
    let mut layer = layer.into_inner().map_err(|error| failed()(error.into_error()))?;
    layer.rewind().map_err(failed())?;

    let config = image.config.document(&diff_id);
    let image_id = Digest::of(&config);
    let config_name = format!("{}.json", image_id.hex());
    let manifest = json!([{ "Config": config_name, "RepoTags": [name.as_str()], "Layers": [LAYER] }]).to_string();

    let mut archive = tempfile::NamedTempFile::new_in(folder).map_err(failed())?;
    let mut tar = Builder::new(BufWriter::new(archive.as_file_mut()));
    write_entries(&mut tar, &manifest, &config_name, &config, (layer, layer_size)).map_err(failed())?;
    drop(tar);
    let size = archive.as_file().metadata().map_err(failed())?.len();
    make_readable(archive.as_file()).map_err(failed())?;
    archive.persist(path).map_err(|error| failed()(error.error))?;
    Ok(Summary { image_id, manifest: None, size })
}

fn write_entries<W: Write>(
    tar: &mut Builder<W>,
    manifest: &str,
    config_name: &str,
    config: &[u8],
    (layer, layer_size): (File, u64),
) -> std::io::Result<()> {
    layer::append_file(tar, Path::new("manifest.json"), manifest.as_bytes(), FILE_MODE)?;
    layer::append_file(tar, Path::new(config_name), config, FILE_MODE)?;
    tar.append_data(&mut layer::header(EntryType::Regular, FILE_MODE, layer_size), LAYER, layer)?;
    tar.finish()?;
    tar.get_mut().flush()
}

/// Temporary files are their owner's alone; an archive may be read by a container runtime of another user.
fn make_readable(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(FILE_MODE))
}
