//! Certificates of the server and of its clients, and the kubeconfig that carries them.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::{RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

/// A certificate or key cannot be made or read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CertificateError(String);

impl CertificateError {
    pub(crate) fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// A certificate authority with the certificates that it signed, in PEM. They are valid until the
/// year 4096: a server that stores them serves the same kubeconfig after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pems {
    /// The certificate of the authority. Its key is not kept: it signs nothing more.
    pub authority: String,
    /// DNS names and IP addresses of the server.
    pub names: Vec<String>,
    pub certificate: String,
    pub key: String,
    pub client_certificate: String,
    pub client_key: String,
    /// The key that signs tokens of ServiceAccounts, see [`Tokens`](crate::Tokens).
    pub token_key: String,
}

/// Whether client certificates of the authority are valid credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    Accepted,
    /// The server requests no client certificate.
    Ignored,
}

/// The TLS configuration of the server, and the PEM files that it comes from.
#[derive(Debug)]
pub struct Identity {
    pub pems: Pems,
    server: Arc<ServerConfig>,
}

impl Pems {
    /// Makes an authority called `authority`, a server certificate for `names` (DNS names and IP
    /// addresses) and a client certificate for `client`.
    ///
    /// # Errors
    ///
    /// A name that a certificate cannot have.
    pub fn make(authority: &str, names: &[String], client: &str) -> Result<Self, CertificateError> {
        let wrong = |it: rcgen::Error| CertificateError(it.to_string());
        let mut params = CertificateParams::new(Vec::new()).map_err(wrong)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let subject = &mut params.distinguished_name;
        subject.push(DnType::CommonName, authority);
        let key = KeyPair::generate().map_err(wrong)?;
        let authority = CertifiedIssuer::self_signed(params, key).map_err(wrong)?;
        let usage = ExtendedKeyUsagePurpose::ServerAuth;
        let (server, key) = sign(&authority, names, "kube-apiserver", usage).map_err(wrong)?;
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        let (client, client_key) = sign(&authority, &[], client, usage).map_err(wrong)?;
        Ok(Self {
            authority: authority.pem(),
            names: names.to_vec(),
            certificate: server.pem(),
            key: key.serialize_pem(),
            client_certificate: client.pem(),
            client_key: client_key.serialize_pem(),
            token_key: KeyPair::generate().map_err(wrong)?.serialize_pem(),
        })
    }
}

impl Identity {
    /// Makes the TLS configuration.
    ///
    /// # Errors
    ///
    /// A certificate or key cannot be read, or they do not belong together.
    pub fn new(pems: Pems, clients: ClientCertificates) -> Result<Self, CertificateError> {
        match server(&pems, clients) {
            Ok(config) => Ok(Self {
                pems,
                server: Arc::new(config),
            }),
            Err(error) => Err(CertificateError(error.to_string())),
        }
    }

    /// The TLS configuration of the server.
    pub fn server(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }
}

fn server(
    pems: &Pems,
    clients: ClientCertificates,
) -> Result<ServerConfig, Box<dyn std::error::Error>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ClientCertVerifier> = match clients {
        ClientCertificates::Accepted => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(pems.authority.as_bytes())?)?;
            WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
                .allow_unauthenticated()
                .build()?
        }
        ClientCertificates::Ignored => Arc::new(NoClientAuth),
    };
    let certificate = CertificateDer::from_pem_slice(pems.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(pems.key.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn sign(
    authority: &CertifiedIssuer<'_, KeyPair>,
    names: &[String],
    common_name: &str,
    usage: ExtendedKeyUsagePurpose,
) -> Result<(Certificate, KeyPair), rcgen::Error> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, authority)?, key))
}

/// The text of a kubeconfig that embeds all it needs, with the token or else the client
/// certificate. Cluster, user and context are called `name`.
pub fn kubeconfig(name: &str, url: &str, pems: Option<&Pems>, token: Option<&str>) -> String {
    let encoded = |pem: &str| BASE64_STANDARD.encode(pem);
    let mut cluster = format!("    server: {url}\n");
    let mut user = String::new();
    if let Some(pems) = pems {
        let authority = encoded(&pems.authority);
        cluster.push_str(&format!("    certificate-authority-data: {authority}\n"));
    }
    match (token, pems) {
        (Some(token), _) => user = format!("    token: {}\n", serde_json::json!(token)),
        (None, Some(pems)) => {
            let certificate = encoded(&pems.client_certificate);
            let key = encoded(&pems.client_key);
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
        "apiVersion: v1\nkind: Config\ncurrent-context: {name}\nclusters:\n- name: {name}\n  \
         cluster:\n{cluster}users:\n- name: {name}\n{user}contexts:\n- name: {name}\n  \
         context:\n    cluster: {name}\n    user: {name}\n"
    )
}
