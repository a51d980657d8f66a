//! Decides which clients get the page and its data.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::WebServer;
use crate::server::answer::plain;

/// Fewest characters of a token: 16 random ones of base64 are 96 bits, more than anybody tries.
const SHORTEST: usize = 16;

/// The secret that clients show as `Authorization: Bearer`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The token in the text of a file. White space around it does not count.
    ///
    /// # Errors
    ///
    /// Why the text is no token: it is too short, or has characters that no header field has.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text {
            _ if text.len() < SHORTEST => Err(format!("has fewer than {SHORTEST} characters")),
            _ if !text.bytes().all(|it| it.is_ascii_graphic()) => {
                Err("has characters other than visible ASCII ones".to_owned())
            }
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// The secret itself, for a process that serves in place of this one.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether the client's headers have the token. The duration does not depend on how many characters are right.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(header::AUTHORIZATION);
        let shown = shown.and_then(|it| it.to_str().ok()?.split_once(' '));
        shown.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer")
                && token.as_bytes().ct_eq(self.0.as_bytes()).into()
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

pub(super) struct Access {
    /// The server listens on a loopback address.
    is_loopback: bool,
    token: Option<Token>,
}

impl Access {
    pub(super) fn new(server: WebServer) -> Self {
        Self {
            is_loopback: server.address.ip().is_loopback(),
            token: server.token,
        }
    }
}

/// Refuses requests for a server of another name. A page of a foreign site can make its own name mean
/// 127.0.0.1 (DNS rebinding), and is then of the same origin as ours for the browser; the name that
/// it sends as `Host` stays its own. Elsewhere the token protects: such a page does not have it.
pub(super) async fn with_host(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let host = request.headers().get(header::HOST);
    if !access.is_loopback || host.is_some_and(names_loopback) {
        next.run(request).await
    } else {
        plain(
            StatusCode::MISDIRECTED_REQUEST,
            "this page is served under the names localhost, 127.0.0.1 and [::1] only\n",
        )
    }
}

fn names_loopback(host: &HeaderValue) -> bool {
    let Ok(authority) = Authority::try_from(host.as_bytes()) else {
        return false;
    };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let ip = bare.unwrap_or(name).parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|it| it.is_loopback())
}

/// Refuses requests without the token, if the server has one.
pub(super) async fn with_token(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let token = access.token.as_ref();
    if token.is_none_or(|it| it.is_shown(request.headers())) {
        return next.run(request).await;
    }
    let refused = plain(
        StatusCode::UNAUTHORIZED,
        "show the token of --web-token-file\n",
    );
    ([(header::WWW_AUTHENTICATE, "Bearer")], refused).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens() {
        let token = Token::new("0123456789abcdef\n").expect("long enough");
        for wrong in ["", "short\n", "0123456789abcde\u{e9}", "01234567 89abcdef"] {
            assert!(Token::new(wrong).is_err(), "{wrong:?}");
        }
        for (shown, expected) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef", true),
            ("Bearer 0123456789abcdeF", false),
            ("Bearer 0123456789abcde", false),
            ("Bearer", false),
            ("Basic 0123456789abcdef", false),
        ] {
            let shown = HeaderValue::from_static(shown);
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, shown)]);
            assert_eq!(token.is_shown(&headers), expected, "{headers:?}");
        }
        assert!(!token.is_shown(&HeaderMap::new()));
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn names_of_this_machine() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:10261", true),
            ("127.0.0.1:8080", true),
            ("127.1.2.3", true),
            ("[::1]:10261", true),
            ("localhost.example.org", false),
            ("evil.example:10261", false),
            ("192.0.2.1:10261", false),
            ("", false),
            ("a b", false),
        ] {
            let value = HeaderValue::from_static(host);
            assert_eq!(names_loopback(&value), expected, "{host:?}");
        }
    }
}
