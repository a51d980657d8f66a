//! The page itself: markup, style and program in one answer, so that nothing else is fetched.

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const HEAD: &str = include_str!("page/head.html");
const STYLE: &str = include_str!("page/style.css");
const BODY: &str = include_str!("page/body.html");

/// One program, whose last part starts it.
const SCRIPT: &str = concat!(
    "'use strict';\n",
    include_str!("page/dom.js"),
    include_str!("page/agent.js"),
    include_str!("page/rates.js"),
    include_str!("page/services.js"),
    include_str!("page/picture.js"),
    include_str!("page/service.js"),
    include_str!("page/syncs.js"),
    include_str!("page/issues.js"),
    include_str!("page/explain.js"),
    include_str!("page/nodes.js"),
    include_str!("page/main.js"),
);

/// The page in one piece.
#[derive(Clone)]
pub(super) struct Page(Bytes);

impl Page {
    pub(super) fn new() -> Self {
        let page = format!(
            "{HEAD}<style>{STYLE}</style>\n</head>\n{BODY}<script>{SCRIPT}</script>\n</body>\n</html>\n"
        );
        Self(page.into())
    }

    pub(super) fn answer(self) -> Response {
        ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], self.0).into_response()
    }
}

/// The content security policy: this style and this program, requests to this server, nothing else.
pub(super) fn policy() -> HeaderValue {
    let of = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let (style, script) = (of(STYLE), of(SCRIPT));
    let policy = format!(
        "default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("base64 and names of directives are visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_is_text_and_nothing_is_fetched_elsewhere() {
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
        ] {
            assert!(!SCRIPT.contains(word), "{word}");
        }
        for (part, end) in [(SCRIPT, "</script"), (STYLE, "</style"), (STYLE, "url(")] {
            assert!(!part.contains(end), "{end}");
        }
        let elsewhere = |part: &str| {
            part.replace("http://www.w3.org/2000/svg", "")
                .contains("://")
        };
        assert!(![HEAD, STYLE, BODY, SCRIPT].into_iter().any(elsewhere));
    }
}
