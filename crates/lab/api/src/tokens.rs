//! Tokens of ServiceAccounts: JSON Web Tokens (RFC 7519), signed with ES256 (RFC 7518, section 3.4), with the claims of
//! kube-apiserver (`pkg/serviceaccount/claims.go`).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::identity::CertificateError;

/// The issuer of all tokens, and their audience when none is asked for.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The algorithm of all signatures.
pub(crate) const ALGORITHM: &str = "ES256";

/// Signs tokens and verifies them.
#[derive(Debug)]
pub struct Tokens {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

/// What a token says. Times are Unix seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) bound: Bound,
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

/// The objects without which a token is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Reference>,
    pub(crate) serviceaccount: Reference,
    /// When a client should have read the file again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warnafter: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The issuer of tokens in Secrets.
pub(crate) const ISSUER_OF_SECRETS: &str = "kubernetes/serviceaccount";

/// What the token in a Secret says (`pkg/serviceaccount/legacy.go`). It never expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SecretClaims {
    pub(crate) iss: String,
    pub(crate) sub: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub(crate) namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub(crate) secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub(crate) account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub(crate) uid: String,
}

impl Tokens {
    /// Reads the key of [`Pems`](crate::Pems), in PEM.
    ///
    /// # Errors
    ///
    /// The text is no key of the curve P-256 in PKCS #8.
    pub fn new(pem: &str) -> Result<Self, CertificateError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes());
        let der = der.map_err(CertificateError::of)?;
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der(), &random);
        let key = key.map_err(CertificateError::of)?;
        Ok(Self { key, random })
    }

    pub(crate) fn sign(&self, claims: &impl Serialize) -> String {
        let header = json!({"alg": ALGORITHM, "kid": self.id()});
        let claims = serde_json::to_vec(claims).expect("texts and numbers become JSON");
        let signed = format!(
            "{}.{}",
            encode(header.to_string().as_bytes()),
            encode(&claims)
        );
        let signature = self.key.sign(&self.random, signed.as_bytes());
        let signature = signature.expect("the kernel has random numbers");
        format!("{signed}.{}", encode(signature.as_ref()))
    }

    /// The claims of a token of ours that is valid at `now`; the objects that it is bound to are not looked up.
    pub(crate) fn verify(&self, token: &str, now: i64) -> Option<Claims> {
        let claims: Claims = self.signed(token)?;
        let is_valid = claims.iss == ISSUER && claims.nbf <= now && now < claims.exp;
        is_valid.then_some(claims)
    }

    /// The claims of a token that a Secret holds; whether it does is not looked up.
    pub(crate) fn verify_of_secret(&self, token: &str) -> Option<SecretClaims> {
        let claims: SecretClaims = self.signed(token)?;
        (claims.iss == ISSUER_OF_SECRETS).then_some(claims)
    }

    /// The claims of a token with our signature; `None` for any other one.
    fn signed<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
        if header["alg"] != ALGORITHM {
            return None;
        }
        let public = self.key.public_key().as_ref();
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public);
        let signature = decode(signature)?;
        public.verify(signed.as_bytes(), &signature).ok()?;
        serde_json::from_slice(&decode(claims)?).ok()
    }

    /// The public half of the key, as a JSON Web Key (RFC 7518, section 6.2.1).
    pub(crate) fn public_key(&self) -> Value {
        // One byte says that the point is not compressed; its coordinates follow (SEC 1, section 2.3.3).
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
        json!({
            "use": "sig",
            "kty": "EC",
            "kid": self.id(),
            "crv": "P-256",
            "alg": ALGORITHM,
            "x": encode(x),
            "y": encode(y),
        })
    }

    /// The name of the key: a hash of its public half, as in kube-apiserver.
    fn id(&self) -> String {
        let public = self.key.public_key().as_ref();
        encode(ring::digest::digest(&ring::digest::SHA256, public).as_ref())
    }
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pems;

    fn tokens() -> Tokens {
        let pems = Pems::make("test", &[], "admin").unwrap();
        Tokens::new(&pems.token_key).unwrap()
    }

    fn claims() -> Claims {
        let reference = |name: &str| Reference {
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
        };
        Claims {
            aud: vec![ISSUER.to_owned()],
            exp: 200,
            iat: 100,
            iss: ISSUER.to_owned(),
            jti: "1".to_owned(),
            bound: Bound {
                namespace: "shop".to_owned(),
                node: None,
                pod: Some(reference("web")),
                secret: None,
                serviceaccount: reference("default"),
                warnafter: None,
            },
            nbf: 100,
            sub: "system:serviceaccount:shop:default".to_owned(),
        }
    }

    #[test]
    fn a_token_is_valid_for_its_time_only() {
        let (tokens, claims) = (tokens(), claims());
        let token = tokens.sign(&claims);
        assert_eq!(tokens.verify(&token, 100), Some(claims.clone()));
        assert_eq!(tokens.verify(&token, 199), Some(claims));
        assert_eq!(tokens.verify(&token, 99), None);
        assert_eq!(tokens.verify(&token, 200), None);
    }

    #[test]
    fn other_tokens_are_refused() {
        let (ours, claims) = (tokens(), claims());
        let token = ours.sign(&claims);
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (header, body) = signed.split_once('.').unwrap();
        let none = encode(br#"{"alg":"none"}"#);
        let mut richer = claims.clone();
        richer.bound.namespace = "kube-system".to_owned();
        let richer = encode(&serde_json::to_vec(&richer).unwrap());
        let mut issuer = claims;
        issuer.iss = "https://example.com".to_owned();
        for wrong in [
            String::new(),
            "secret".to_owned(),
            "a.b.c".to_owned(),
            format!("{signed}."),
            format!("{none}.{body}."),
            format!("{none}.{body}.{signature}"),
            format!("{header}.{richer}.{signature}"),
            format!("{token}.{signature}"),
            tokens().sign(&self::claims()),
            ours.sign(&issuer),
        ] {
            assert_eq!(ours.verify(&wrong, 150), None, "{wrong}");
        }
    }
}
