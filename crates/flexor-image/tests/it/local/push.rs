//! Images pushed to a registry are what is pulled from it.

use std::net::{Ipv4Addr, TcpListener};

use flexor_image::Credentials;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference};

use super::registry::Registry;
use crate::fixture::{self, LAYER, listed, name};

macro_rules! registry_or_skip {
    ($started:expr) => {
        match $started {
            Ok(registry) => registry,
            Err(reason) => {
                println!("skipped: {reason}");
                return;
            }
        }
    };
}

fn client() -> Client {
    Client::new(ClientConfig { protocol: ClientProtocol::Http, ..ClientConfig::default() })
}

#[tokio::test]
async fn a_pushed_image_is_pulled_with_the_digest_of_the_layout() {
    let registry = registry_or_skip!(Registry::open());
    let name = name(&format!("{}/team/greet:1", registry.address()));
    let pushed = fixture::image().push(&name, &Credentials::None).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    assert_eq!(fixture::image().write_layout(folder.path(), &name).unwrap(), pushed);
    let again = fixture::image().push(&name, &Credentials::None).await.unwrap();
    assert_eq!(again, pushed, "a second push finds every blob there");

    let reference: Reference = name.as_str().parse().unwrap();
    let (manifest, digest) = client().pull_image_manifest(&reference, &RegistryAuth::Anonymous).await.unwrap();
    assert_eq!(digest, pushed.manifest.unwrap().to_string());
    assert_eq!(manifest.config.digest, pushed.image_id.to_string());
    let mut layer = Vec::new();
    client().pull_blob(&reference, &manifest.layers[0], &mut layer).await.unwrap();
    assert_eq!(listed(flate2::read::GzDecoder::new(layer.as_slice())), LAYER);
}

#[tokio::test]
async fn a_registry_with_a_password_lets_only_its_user_push() {
    let registry = registry_or_skip!(Registry::with_password());
    let name = name(&format!("{}/greet:1", registry.address()));
    let mine = Credentials::Password { user: "me".to_owned(), password: "secret".to_owned() };
    let wrong = Credentials::Password { user: "me".to_owned(), password: "guess".to_owned() };
    for refused in [Credentials::None, wrong] {
        let message = fixture::image().push(&name, &refused).await.unwrap_err().to_string();
        assert!(message.starts_with(&format!("cannot push {name}: ")), "{message}");
        assert!(!message.contains("guess"), "{message}");
    }
    fixture::image().push(&name, &mine).await.unwrap();
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_named_with_the_cause() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let name = name(&format!("127.0.0.1:{port}/greet:1"));
    let message = fixture::image().push(&name, &Credentials::None).await.unwrap_err().to_string();
    assert!(message.starts_with(&format!("cannot push {name}: ")), "{message}");
    assert!(message.contains("Connection refused"), "{message}");
}
