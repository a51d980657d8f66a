//! Which certificates of the API server are believed.

use std::sync::Arc;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use kube::Config;
use kube::client::ConfigExt as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
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

/// Believes, beside what an authority has signed, a certificate that is one of the authorities itself, as Go does:
/// `openssl req -x509` makes such certificates. WebPKI wants an authority to be no server (`CaUsedAsEndEntity`).
#[derive(Debug)]
struct OwnAuthority {
    usual: Arc<WebPkiServerVerifier>,
    roots: Vec<CertificateDer<'static>>,
}

impl OwnAuthority {
    fn new(roots: &[Vec<u8>]) -> Result<Self, BoxError> {
        let roots: Vec<_> = roots.iter().cloned().map(CertificateDer::from).collect();
        let mut store = RootCertStore::empty();
        for root in &roots {
            store.add(root.clone())?;
        }
        Ok(Self {
            usual: WebPkiServerVerifier::builder(Arc::new(store)).build()?,
            roots,
        })
    }
}

impl ServerCertVerifier for OwnAuthority {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self
            .usual
            .verify_server_cert(certificate, between, name, ocsp, now);
        match usual {
            // It is not expired: WebPKI looks at the time first.
            Err(error) if is_authority(&error) && self.roots.contains(certificate) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            usual => usual,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Whether the one thing that is wrong with a certificate is that it is an authority's.
fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(why)) = error else {
        return false;
    };
    matches!(why.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair};

    use super::*;

    /// A certificate of `localhost` that is its own authority.
    fn own_authority() -> Certificate {
        let mut wanted = CertificateParams::new(["localhost".to_owned()]).unwrap();
        wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        wanted.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    /// Whether the certificate is believed for this name, by who trusts `roots`, at a time in seconds.
    fn believes(roots: &[&Certificate], shown: &Certificate, name: &str, time: u64) -> bool {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let roots: Vec<_> = roots.iter().map(|it| it.der().to_vec()).collect();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(time));
        let verifier = OwnAuthority::new(&roots).unwrap();
        verifier
            .verify_server_cert(shown.der(), &[], &name, &[], now)
            .is_ok()
    }

    #[test]
    fn a_certificate_that_is_its_own_authority_is_believed() {
        const NOW: u64 = 1_800_000_000;
        let [one, other] = [own_authority(), own_authority()];
        assert!(believes(&[&other, &one], &one, "localhost", NOW));
        assert!(!believes(&[&other], &one, "localhost", NOW), "unknown");
        assert!(!believes(&[&one], &one, "example.com", NOW), "wrong name");
        assert!(!believes(&[&one], &one, "localhost", 0), "not valid yet");
        assert!(!believes(&[&one], &one, "localhost", 1 << 40), "expired");
    }
}
