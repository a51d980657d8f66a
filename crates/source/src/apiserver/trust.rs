//! How a connection to the API server is made safe.

use std::sync::Arc;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use kube::Config;
use kube::client::ConfigExt as _;
use rustls::pki_types::{CertificateDer, ServerName};
use sluice_tls::OwnAuthority;
use tower::BoxError;

/// What kube's `rustls_https_connector_with_connector` makes, but for [`OwnAuthority`].
pub(super) fn connector<C>(config: &Config, tcp: C) -> Result<HttpsConnector<C>, BoxError> {
    let mut tls = config.rustls_client_config()?;
    // kube reads the authority of a service account again from time to time, and checks with it.
    let is_read_again = config.root_cert_file.is_some();
    if let Some(roots) = &config.root_cert
        && !config.accept_invalid_certs
        && !is_read_again
    {
        let roots = roots.iter().cloned().map(CertificateDer::from).collect();
        let verifier = OwnAuthority::new(roots)?;
        tls.dangerous().set_certificate_verifier(Arc::new(verifier));
    }
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone())?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_http1().wrap_connector(tcp))
}
