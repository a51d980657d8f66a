//! A certificate that is its own authority.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Believes, beside what an authority has signed, a certificate that is one of the authorities itself, as Go does:
/// `openssl req -x509` makes such certificates. WebPKI wants an authority to be no server (`CaUsedAsEndEntity`).
#[derive(Debug)]
pub struct OwnAuthority {
    usual: Arc<WebPkiServerVerifier>,
    roots: Vec<CertificateDer<'static>>,
}

impl OwnAuthority {
    /// Whoever believes these authorities.
    ///
    /// # Errors
    /// There is none, or one that is no certificate of an authority.
    pub fn new(roots: Vec<CertificateDer<'static>>) -> Result<Self, TrustError> {
        let mut store = RootCertStore::empty();
        for root in &roots {
            store.add(root.clone())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider);
        Ok(Self {
            usual: usual.build()?,
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

/// Why authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(transparent)]
    Certificate(#[from] Error),
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
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
        let roots = roots.iter().map(|it| it.der().clone()).collect();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(time));
        let verifier = OwnAuthority::new(roots).unwrap();
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
