//! Pushes an image to a registry: its blobs where the registry lacks them, then the manifest under the tag.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, RegistryOperation};
use serde_json::Value;

use crate::{Image, ImageError, ImageName, Summary, layout};

/// How a registry knows who pushes.
#[derive(Clone, Default)]
pub enum Credentials {
    #[default]
    None,
    Password {
        user: String,
        password: String,
    },
}

impl Credentials {
    /// The credentials that `docker login` or `podman login` wrote for the image's registry, or none.
    pub fn of_docker_login(name: &ImageName) -> Result<Self, ImageError> {
        let Some(path) = docker_config() else { return Ok(Self::None) };
        match fs::read(&path) {
            Ok(bytes) => {
                Self::read(&bytes, name.registry()).map_err(|reason| ImageError::BadCredentials { path, reason })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::None),
            Err(error) => Err(ImageError::io("read", &path)(error)),
        }
    }

    fn read(config: &[u8], registry: &str) -> Result<Self, String> {
        let config: Value = serde_json::from_slice(config).map_err(|error| error.to_string())?;
        let keys = match registry {
            "docker.io" => vec!["docker.io", "https://index.docker.io/v1/"],
            other => vec![other],
        };
        let Some(entry) = keys.into_iter().find_map(|key| config["auths"].get(key)) else { return Ok(Self::None) };
        let Some(encoded) = entry["auth"].as_str() else {
            return Err(format!("those of {registry} are kept by a credential helper, which is not supported"));
        };
        let decoded = BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
        let (user, password) = pair.ok_or_else(|| format!("those of {registry} are not USER:PASSWORD in base64"))?;
        Ok(Self::Password { user: user.to_owned(), password: password.to_owned() })
    }

    fn to_auth(&self) -> RegistryAuth {
        match self {
            Self::None => RegistryAuth::Anonymous,
            Self::Password { user, password } => RegistryAuth::Basic(user.clone(), password.clone()),
        }
    }
}

fn docker_config() -> Option<PathBuf> {
    let folder = env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    folder.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".docker"))).map(|folder| folder.join("config.json"))
}

pub(crate) async fn push(image: &Image, name: &ImageName, credentials: &Credentials) -> Result<Summary, ImageError> {
    let folder = tempfile::tempdir().map_err(ImageError::io("create", &env::temp_dir()))?;
    let layout = layout::write(image, folder.path(), name)?;
    let refused = |source| ImageError::Push { name: name.to_string(), source: Box::new(source) };

    let client = client(name).map_err(refused)?;
    let reference = name.reference();
    client.auth(reference, &credentials.to_auth(), RegistryOperation::Push).await.map_err(refused)?;
    for blob in [&layout.layer, &layout.config] {
        if client.blob_exists(reference, blob.digest.as_str()).await.map_err(refused)? {
            continue;
        }
        let bytes = read(&blob.path)?;
        client.push_blob(reference, bytes, blob.digest.as_str()).await.map_err(refused)?;
    }
    let manifest = read(&layout.manifest.path)?;
    let media_type = HeaderValue::from_static(layout::MANIFEST_TYPE);
    client.push_manifest_raw(reference, manifest, media_type).await.map_err(refused)?;
    Ok(layout.summary())
}

fn read(path: &Path) -> Result<Bytes, ImageError> {
    fs::read(path).map(Bytes::from).map_err(ImageError::io("read", path))
}

fn client(name: &ImageName) -> Result<Client, OciDistributionError> {
    // The TLS library has no provider of its own here. A second call finds the first one's and changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let protocol = if name.is_on_loopback() { ClientProtocol::Http } else { ClientProtocol::Https };
    Client::try_from(ClientConfig { protocol, ..ClientConfig::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(config: &str, registry: &str) -> String {
        match Credentials::read(config.as_bytes(), registry) {
            Ok(Credentials::None) => "none".to_owned(),
            Ok(Credentials::Password { user, password }) => format!("{user} with {password}"),
            Err(reason) => reason,
        }
    }

    #[test]
    fn the_registry_of_the_image_chooses_the_login() {
        let config = r#"{"auths": {"registry.example": {"auth": "bWU6c2VjcmV0OjE="}, "helped.example": {}}}"#;
        assert_eq!(described(config, "registry.example"), "me with secret:1");
        assert_eq!(described(config, "other.example"), "none");
        assert!(described(config, "helped.example").contains("credential helper"));
    }

    #[test]
    fn a_damaged_login_is_an_error_and_shows_no_secret() {
        let damaged = described(r#"{"auths": {"registry.example": {"auth": "c2VjcmV0"}}}"#, "registry.example");
        assert_eq!(damaged, "those of registry.example are not USER:PASSWORD in base64");
        assert!(described("{", "registry.example").contains("EOF"));
    }
}
