//! Where others find the key that tokens of ServiceAccounts are signed with, to verify them without this server
//! (OpenID Connect Discovery 1.0; `pkg/serviceaccount/openidmetadata.go`).

use hyper::header::{CACHE_CONTROL, HeaderValue};
use serde_json::json;

use super::Api;
use crate::answer::{Answer, Content, with_type};
use crate::tokens::{ALGORITHM, ISSUER};

const KEYS: &str = "/openid/v1/jwks";

impl Api {
    /// The answer to the path of a document about the issuer of tokens; `None` for any other path.
    pub(super) fn issuer(&self, path: &str) -> Option<Answer> {
        let tokens = self.tokens.as_ref()?;
        let (content_type, document) = match path {
            "/.well-known/openid-configuration" => {
                let document = json!({
                    "issuer": ISSUER,
                    "jwks_uri": format!("{ISSUER}{KEYS}"),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": [ALGORITHM],
                });
                ("application/json", document)
            }
            KEYS => {
                let document = json!({"keys": [tokens.public_key()]});
                ("application/jwk-set+json", document)
            }
            _ => return None,
        };
        let mut answer = with_type(content_type, Content::whole(document.to_string()));
        let public = HeaderValue::from_static("public, max-age=3600");
        answer.headers_mut().insert(CACHE_CONTROL, public);
        Some(answer)
    }
}
