//! An image and the three forms in which it leaves this crate.

use std::path::Path;

use crate::{Credentials, Digest, ImageConfig, ImageError, ImageName, RootFiles, docker_archive, layout, push};

/// One layer of files and a config.
#[derive(Debug, Clone)]
pub struct Image {
    pub files: RootFiles,
    pub config: ImageConfig,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The digest of the config, which `docker images` and `crictl images` show. Equal in every form.
    pub image_id: Digest,
    /// The digest by which a registry serves the image; an archive has none.
    pub manifest: Option<Digest>,
    /// Bytes of all parts: compressed in a layout and a registry, uncompressed in an archive.
    pub size: u64,
}

impl Image {
    /// Writes an OCI layout into `folder`, in place of an earlier layout.
    pub fn write_layout(&self, folder: &Path, name: &ImageName) -> Result<Summary, ImageError> {
        Ok(layout::replace(self, folder, name)?.summary())
    }

    /// Writes an archive for `docker load`, `ctr images import`, `kind load image-archive` and `minikube image load`.
    pub fn write_docker_archive(&self, path: &Path, name: &ImageName) -> Result<Summary, ImageError> {
        docker_archive::write(self, path, name)
    }

    /// Pushes to the registry that the name begins with: by plain HTTP on this machine, else by HTTPS.
    pub async fn push(&self, name: &ImageName, credentials: &Credentials) -> Result<Summary, ImageError> {
        push::push(self, name, credentials).await
    }
}
