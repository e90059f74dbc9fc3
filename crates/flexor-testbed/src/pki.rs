//! The small certificate authority of one cluster, and the kubeconfig of its administrator.
//!
//! Every cluster has its own, made at start and removed with its folder. All control-plane programs and the tests are
//! the one administrator (`system:masters`); a test that needs fewer rights makes a ServiceAccount and asks the API
//! server for a token. Nothing else trusts what is written here.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};

use crate::real_nodes::CONTROL_PLANE;

/// First address of the service range: the API server as pods see it.
const SERVICE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));

/// The files of a cluster's authority, all in one folder.
#[derive(Debug, Clone)]
pub(crate) struct Pki {
    folder: PathBuf,
}

impl Pki {
    /// Makes an authority, the API server's and the administrator's certificates and the ServiceAccount key.
    pub(crate) fn create(folder: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        let pki = Self { folder: folder.to_owned() };
        let authority = CertifiedIssuer::self_signed(authority_params(), KeyPair::generate()?)?;
        write(&pki.authority(), &authority.pem())?;

        let key = KeyPair::generate()?;
        let server = server_params()?.signed_by(&key, &authority)?;
        write(&pki.server_certificate(), &server.pem())?;
        write(&pki.server_key(), &key.serialize_pem())?;

        let key = KeyPair::generate()?;
        let admin = admin_params().signed_by(&key, &authority)?;
        write(&pki.admin_certificate(), &admin.pem())?;
        write(&pki.admin_key(), &key.serialize_pem())?;

        let accounts = KeyPair::generate()?;
        write(&pki.account_key(), &accounts.serialize_pem())?;
        write(&pki.account_public_key(), &accounts.public_key_pem())?;
        Ok(pki)
    }

    /// The authority's certificate.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The API server's certificate.
    pub(crate) fn server_certificate(&self) -> PathBuf {
        self.folder.join("apiserver.crt")
    }

    /// The API server's key.
    pub(crate) fn server_key(&self) -> PathBuf {
        self.folder.join("apiserver.key")
    }

    /// The key that signs ServiceAccount tokens.
    pub(crate) fn account_key(&self) -> PathBuf {
        self.folder.join("service-account.key")
    }

    /// The key that verifies ServiceAccount tokens.
    pub(crate) fn account_public_key(&self) -> PathBuf {
        self.folder.join("service-account.pub")
    }

    /// The administrator's certificate.
    pub(crate) fn admin_certificate(&self) -> PathBuf {
        self.folder.join("admin.crt")
    }

    /// The administrator's key.
    pub(crate) fn admin_key(&self) -> PathBuf {
        self.folder.join("admin.key")
    }

    /// The administrator's kubeconfig for the API server at `server`. It names the certificate files by path.
    pub(crate) fn kubeconfig(&self, server: SocketAddr) -> String {
        let [authority, certificate, key] =
            [self.authority(), self.admin_certificate(), self.admin_key()].map(|path| path.display().to_string());
        // JSON is YAML, and its strings need no thought about quoting.
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "testbed",
            "clusters": [{
                "name": "testbed",
                "cluster": { "server": format!("https://{server}"), "certificate-authority": authority },
            }],
            "users": [{ "name": "admin", "user": { "client-certificate": certificate, "client-key": key } }],
            "contexts": [{ "name": "testbed", "context": { "cluster": "testbed", "user": "admin" } }],
        });
        format!("{config:#}\n")
    }
}

fn authority_params() -> CertificateParams {
    let mut params = named("flexor-testbed", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn server_params() -> anyhow::Result<CertificateParams> {
    let mut params = named("kube-apiserver", None);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.subject_alt_names = vec![
        SanType::IpAddress(Ipv4Addr::LOCALHOST.into()),
        SanType::IpAddress(SERVICE_ADDRESS),
        SanType::IpAddress(CONTROL_PLANE.into()),
        SanType::DnsName("localhost".try_into()?),
        SanType::DnsName("kubernetes.default.svc".try_into()?),
    ];
    Ok(params)
}

fn admin_params() -> CertificateParams {
    let mut params = named("testbed-admin", Some("system:masters"));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn named(common_name: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params
}

/// Writes a file that only its owner may read: most of these are keys.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes()).with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_names_the_server_and_files_that_exist() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::create(folder.path()).unwrap();
        let text = pki.kubeconfig("127.0.0.1:6443".parse().unwrap());
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
        let user = config.auth_infos[0].auth_info.as_ref().unwrap();
        for file in [&cluster.certificate_authority, &user.client_certificate, &user.client_key] {
            assert!(Path::new(file.as_ref().unwrap()).is_file(), "{file:?}");
        }
    }
}
