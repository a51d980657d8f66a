//! TLS to pods. kube-apiserver and kubelet trust every certificate there, too: those of pods are signed by nobody they know
//! (`ProxyTransport` in `cmd/kube-apiserver/app/server.go`, `pkg/probe/http`).

use std::sync::{Arc, LazyLock};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// Takes every certificate whose key the server has.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

static CLIENT: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has what TLS 1.2 and 1.3 need")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    // The address of a pod that is gone is another one's later.
    config.resumption = Resumption::disabled();
    Arc::new(config)
});

/// The configuration of clients of pods.
#[must_use]
pub fn unverified_client() -> Arc<ClientConfig> {
    CLIENT.clone()
}
