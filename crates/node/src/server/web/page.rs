//! A page: markup, style and program in one answer, so that nothing else is fetched.

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const HEAD: &str = include_str!("page/head.html");
const STYLE: &str = include_str!("page/style.css");

/// The form for the token of an `OWNER`.
const TOKEN: &str = include_str!("page/token.html");

/// The place of that form in a body.
const PLACE: &str = "  <!-- token -->\n";

/// The common first part of the programs of all pages: elements, requests, views.
const COMMON: &str = concat!(
    "'use strict';\n",
    include_str!("page/dom.js"),
    include_str!("page/ask.js"),
    include_str!("page/views.js"),
);

/// A page in one piece.
#[derive(Clone, Debug)]
pub struct Page {
    text: Bytes,
    /// The content security policy: this style and this program, requests to this server, nothing else.
    policy: HeaderValue,
}

impl Page {
    /// A page with the style, elements and requests of all pages, and its own. `owner` is who asks for the token, in a
    /// form in the place of `<!-- token -->`. `script` defines the functions that `views.js` uses.
    #[must_use]
    pub fn new(owner: &str, style: &str, body: &str, script: &str) -> Self {
        let body = body.replace(PLACE, &TOKEN.replace("OWNER", owner));
        let (style, script) = (format!("{STYLE}{style}"), format!("{COMMON}{script}"));
        let page = format!(
            "{HEAD}<style>{style}</style>\n</head>\n{body}<script>{script}</script>\n</body>\n</html>\n"
        );
        let of = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
        let (style, script) = (of(&style), of(&script));
        let policy = format!(
            "default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        let policy = HeaderValue::try_from(policy);
        Self {
            text: page.into(),
            policy: policy.expect("base64 and names of directives are visible ASCII"),
        }
    }

    /// The answer to a request for the page.
    #[must_use]
    pub fn answer(&self) -> Response {
        let headers = [
            (
                header::CONTENT_TYPE,
                HeaderValue::from_static("text/html; charset=utf-8"),
            ),
            (header::CONTENT_SECURITY_POLICY, self.policy.clone()),
        ];
        (headers, self.text.clone()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_is_text_and_nothing_is_fetched_elsewhere() {
        let script = COMMON;
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
        ] {
            assert!(!script.contains(word), "{word}");
        }
        for (part, end) in [(script, "</script"), (STYLE, "</style"), (STYLE, "url(")] {
            assert!(!part.contains(end), "{end}");
        }
        let elsewhere = |part: &str| {
            part.replace("http://www.w3.org/2000/svg", "")
                .contains("://")
        };
        assert!(![HEAD, STYLE, script].into_iter().any(elsewhere));
    }
}
