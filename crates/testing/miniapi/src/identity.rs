//! Certificates of the server and of its clients, and the files that tell clients of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier};

use crate::error::Error;

/// A certificate authority made for one server, with what it signed.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) ca_pem: String,
    pub(crate) client_certificate_pem: String,
    pub(crate) client_key_pem: String,
    server: Arc<ServerConfig>,
}

impl Identity {
    /// Makes an authority, a server certificate for loopback and a client certificate.
    pub(crate) fn new(client_certificates: bool) -> Result<Self, Error> {
        Self::make(client_certificates).map_err(|it| Error::Certificates(it.to_string()))
    }

    /// What TLS needs to answer.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }

    fn make(client_certificates: bool) -> Result<Self, Box<dyn std::error::Error>> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "mini-ca");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let names = ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"];
        let (server, server_key) = sign(
            &authority,
            &names,
            "kube-apiserver",
            ExtendedKeyUsagePurpose::ServerAuth,
        )?;
        let (client, client_key) = sign(
            &authority,
            &[],
            "system:kube-proxy",
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ClientCertVerifier> = if client_certificates {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone())?;
            WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
                .allow_unauthenticated()
                .build()?
        } else {
            Arc::new(NoClientAuth)
        };
        let key = PrivateKeyDer::try_from(server_key.serialize_der())?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![server.der().clone()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            ca_pem: authority.pem(),
            client_certificate_pem: client.pem(),
            client_key_pem: client_key.serialize_pem(),
            server: Arc::new(config),
        })
    }
}

fn sign(
    authority: &CertifiedIssuer<'_, KeyPair>,
    names: &[&str],
    common_name: &str,
    usage: ExtendedKeyUsagePurpose,
) -> Result<(Certificate, KeyPair), rcgen::Error> {
    let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, authority)?, key))
}

/// The text of a kubeconfig with everything embedded.
pub(crate) fn kubeconfig(url: &str, identity: Option<&Identity>, token: Option<&str>) -> String {
    let encoded = |pem: &str| BASE64_STANDARD.encode(pem);
    let mut cluster = format!("    server: {url}\n");
    let mut user = String::new();
    if let Some(identity) = identity {
        let authority = encoded(&identity.ca_pem);
        cluster.push_str(&format!("    certificate-authority-data: {authority}\n"));
    }
    match (token, identity) {
        (Some(token), _) => user = format!("    token: {}\n", serde_json::json!(token)),
        (None, Some(identity)) => {
            let certificate = encoded(&identity.client_certificate_pem);
            let key = encoded(&identity.client_key_pem);
            user.push_str(&format!("    client-certificate-data: {certificate}\n"));
            user.push_str(&format!("    client-key-data: {key}\n"));
        }
        (None, None) => {}
    }
    let user = match user.as_str() {
        "" => "  user: {}\n".to_owned(),
        _ => format!("  user:\n{user}"),
    };
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: mini\nclusters:\n- name: mini\n  cluster:\n\
         {cluster}users:\n- name: mini\n{user}contexts:\n- name: mini\n  context:\n    \
         cluster: mini\n    user: mini\n"
    )
}

/// Writes `ca.crt`, `token` and `namespace`, as pods find them.
pub(crate) fn write_service_account(folder: &Path, ca_pem: &str, token: &str) -> Result<(), Error> {
    let files = [
        ("ca.crt", ca_pem),
        ("token", token),
        ("namespace", "kube-system"),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|cause| Error::Write {
            path: path.display().to_string(),
            cause,
        })?;
    }
    Ok(())
}
