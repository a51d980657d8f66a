//! DNS over TLS (RFC 7858): whom to trust, and the name that an upstream must prove.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sluice_corefile::{ClientCertificate, ForwardTls};
use sluice_tls::OwnAuthority;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::SetupError;

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
    ) -> Result<Self, SetupError> {
        let server_name = match name {
            None => ServerName::from(address),
            Some(name) => ServerName::try_from(name.trim_end_matches('.').to_owned())
                .map_err(SetupError::at(format!(": tls_servername {name}")))?,
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
pub(super) fn client_config(tls: &ForwardTls) -> Result<Arc<ClientConfig>, SetupError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has cipher suites for TLS 1.2 and 1.3");
    let builder = match &tls.authority {
        Some(path) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(authorities(path)?)),
        None => builder.with_root_certificates(system_authorities()?),
    };
    let config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some(ClientCertificate { certificate, key }) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(SetupError::at(format!(": read {}", key.display())))?;
            let what = format!(": use certificate {}", certificate.display());
            builder
                .with_client_auth_cert(chain, key)
                .map_err(SetupError::at(what))?
        }
    };
    Ok(Arc::new(config))
}

fn authorities(path: &Path) -> Result<OwnAuthority, SetupError> {
    let origin = path.display().to_string();
    let roots = certificates(path)?;
    if roots.is_empty() {
        return Err(nobody_is_trusted(&origin));
    }
    let what = format!(": use certificate authorities of {origin}");
    OwnAuthority::new(roots).map_err(SetupError::at(what))
}

/// Authorities that cannot be read are left out: a system has more than a hundred.
fn system_authorities() -> Result<RootCertStore, SetupError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(nobody_is_trusted("the system"));
    }
    Ok(roots)
}

fn nobody_is_trusted(origin: &str) -> SetupError {
    let why = "has no certificate authority: name a file with `tls CA`";
    SetupError(format!(": {origin} {why}"))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(SetupError::at(format!(": read {}", path.display())))
}
