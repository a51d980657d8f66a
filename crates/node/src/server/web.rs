//! The web server of the agent: one HTML file, and the JSON that it shows.
//!
//! ```text
//! /            the page
//! /api/status  as `sluice status -o json`
//! /api/…       of consumers
//! ```
//!
//! An answer has an entity tag ([`Tags`]): the page asks once a second, and what has not changed is neither
//! computed nor sent again.

mod access;
mod page;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::Response;
use axum::routing::get;

pub use access::Token;
pub use page::Page;

use super::answer::{Tags, await_answer, hash_of, json, plain};
use crate::runtime::Control;
use access::Access;

/// The server of the web page.
#[derive(Debug)]
pub struct WebServer {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The token that clients must send before they get any data; `None` admits every client that reaches the
    /// address.
    pub token: Option<Token>,
}

#[derive(Clone)]
struct Web {
    control: Control,
    tags: Tags,
}

pub(super) fn routes(
    server: WebServer,
    page: Page,
    control: Control,
    of_consumers: Router,
) -> Router {
    let web = Web {
        control,
        tags: Tags::now(),
    };
    let data = Router::new().route("/api/status", get(status));
    let data = data.with_state(web).merge(of_consumers);
    let pages = Router::new().route("/", get(async move || page.answer()));
    guarded(server, pages, data)
}

/// `pages` for every client that reaches the server, and `data` for clients with its token. Browsers get both for
/// this server's own pages only.
pub fn guarded(server: WebServer, pages: Router, data: Router) -> Router {
    let access = Arc::new(Access::new(server));
    let data = data.layer(middleware::from_fn_with_state(
        access.clone(),
        access::with_token,
    ));
    pages
        .merge(data)
        .fallback(async || plain(StatusCode::NOT_FOUND, "404 page not found\n"))
        .layer(middleware::from_fn_with_state(access, access::with_host))
        .layer(middleware::map_response(protected))
}

/// Headers of every answer: browsers must not store it, guess another type, or give it to another site. An answer
/// that is no page cannot run scripts or load anything.
async fn protected(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'",
        ));
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let isolation = ["cross-origin-resource-policy", "cross-origin-opener-policy"];
    for name in isolation {
        headers.insert(name, HeaderValue::from_static("same-origin"));
    }
    response
}

async fn status(State(web): State<Web>, headers: HeaderMap) -> Response {
    match await_answer(web.control.status()).await {
        // The page counts the seconds itself.
        Ok(status) => {
            let tag = hash_of(&status.timeless());
            web.tags.tagged(&headers, &tag, || json(&status.json()))
        }
        Err(unavailable) => unavailable,
    }
}
