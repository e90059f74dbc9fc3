//! The name of an image: `[REGISTRY/]NAME[:TAG]`, as manifests and `docker` write it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use oci_client::Reference;

use crate::ImageError;

/// A name with a tag; `latest` where none is written. A name by digest is refused: the digest is the result of writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// Without the registry and folder that Docker adds to short names.
    text: String,
    reference: Reference,
}

impl ImageName {
    /// As archives and layouts record it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn tag(&self) -> &str {
        self.text.rsplit(':').next().unwrap_or_default()
    }

    /// `HOST[:PORT]`; Docker Hub for a name without a registry.
    pub fn registry(&self) -> &str {
        self.reference.registry()
    }

    /// Whether the registry is on this machine, where registries speak plain HTTP.
    pub fn is_on_loopback(&self) -> bool {
        let host = self.registry().split(':').next().unwrap_or_default();
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    pub(crate) fn reference(&self) -> &Reference {
        &self.reference
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ImageName {
    type Err = ImageError;

    fn from_str(text: &str) -> Result<Self, ImageError> {
        let refuse = |reason: &str| ImageError::BadName { text: text.to_owned(), reason: reason.to_owned() };
        let reference: Reference = text.parse().map_err(|error| refuse(&format!("{error}")))?;
        if reference.digest().is_some() {
            return Err(refuse("it has a digest, which follows from the content"));
        }
        let tag = reference.tag().unwrap_or("latest");
        let text = if text.ends_with(&format!(":{tag}")) { text.to_owned() } else { format!("{text}:{tag}") };
        Ok(Self { text, reference })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ImageName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_without_a_tag_means_latest() {
        assert_eq!(name("flexor").as_str(), "flexor:latest");
        assert_eq!(name("localhost:5000/a/b").as_str(), "localhost:5000/a/b:latest");
        assert_eq!(name("registry.example/flexor:1.2").as_str(), "registry.example/flexor:1.2");
    }

    #[test]
    fn registries_of_this_machine_are_told_from_others() {
        for here in ["localhost:5000/flexor", "127.0.0.1:5000/flexor:1", "127.8.0.1/flexor"] {
            assert!(name(here).is_on_loopback(), "{here}");
        }
        for there in ["flexor", "registry.example:5000/flexor", "localhost.example/flexor", "10.0.0.1:5000/flexor"] {
            assert!(!name(there).is_on_loopback(), "{there}");
        }
    }

    #[test]
    fn a_bad_name_is_refused_with_the_form_to_write() {
        let digest = format!("flexor@sha256:{}", "0".repeat(64));
        for bad in ["", "Flexor:1", "registry.example/", "flexor:a b", "http://localhost/flexor", &digest] {
            let message = bad.parse::<ImageName>().unwrap_err().to_string();
            assert!(message.starts_with(&format!("`{bad}` is not the name of an image: ")), "{message}");
            assert!(message.ends_with("write REGISTRY/NAME:TAG, such as registry.example/flexor:1"), "{message}");
        }
    }
}
