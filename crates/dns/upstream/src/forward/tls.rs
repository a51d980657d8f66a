//! DNS over TLS (RFC 7858): whom to trust, and the name that an upstream must prove.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sluice_corefile::{ClientCertificate, ForwardTls};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or is no PEM file of the expected kind.
    #[error("read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// A certificate authority is not usable.
    #[error("use certificate authorities of {origin}: {source}")]
    Authority {
        /// Their file, or the system.
        origin: String,
        /// What is wrong.
        source: rustls::Error,
    },
    /// There is nothing to verify an upstream's certificate with.
    #[error("{origin} has no certificate authority: name a file with `tls CA`")]
    NoAuthority {
        /// Their file, or the system.
        origin: String,
    },
    /// Our own certificate and its key do not serve.
    #[error("use certificate {path}: {source}")]
    Client {
        /// The certificate's file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// `tls_servername` is no name.
    #[error("tls_servername {name}: {source}")]
    ServerName {
        /// What the Corefile says.
        name: String,
        /// What is wrong.
        source: InvalidDnsNameError,
    },
}

/// How one upstream is reached over TLS.
pub(super) struct Tls {
    connector: TlsConnector,
    server_name: ServerName<'static>,
}

impl Tls {
    /// `name`: what the upstream's certificate must be for; `None`: its address.
    pub(super) fn new(
        config: &Arc<ClientConfig>,
        name: Option<&str>,
        address: IpAddr,
    ) -> Result<Self, TlsError> {
        let server_name =
            match name {
                None => ServerName::from(address),
                Some(name) => ServerName::try_from(name.trim_end_matches('.').to_owned()).map_err(
                    |source| TlsError::ServerName {
                        name: name.to_owned(),
                        source,
                    },
                )?,
            };
        Ok(Self {
            connector: TlsConnector::from(Arc::clone(config)),
            server_name,
        })
    }

    /// The handshake.
    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector
            .connect(self.server_name.clone(), stream)
            .await
    }
}

/// The configuration that all upstreams of a `forward` share. Reads the files that `tls` names.
pub(super) fn client_config(tls: &ForwardTls) -> Result<Arc<ClientConfig>, TlsError> {
    let roots = match &tls.authority {
        Some(path) => authorities(path)?,
        None => system_authorities()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for TLS 1.2 and 1.3")
        .with_root_certificates(roots);
    let config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some(ClientCertificate { certificate, key }) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::File {
                path: key.clone(),
                source,
            })?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|source| TlsError::Client {
                    path: certificate.clone(),
                    source,
                })?
        }
    };
    Ok(Arc::new(config))
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let origin = path.display().to_string();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots
            .add(certificate)
            .map_err(|source| TlsError::Authority {
                origin: origin.clone(),
                source,
            })?;
    }
    not_empty(roots, origin)
}

/// Authorities that cannot be read are left out: a system has more than a hundred.
fn system_authorities() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    not_empty(roots, "the system".to_owned())
}

fn not_empty(roots: RootCertStore, origin: String) -> Result<RootCertStore, TlsError> {
    if roots.is_empty() {
        return Err(TlsError::NoAuthority { origin });
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|source| TlsError::File {
            path: path.to_owned(),
            source,
        })
}
