//! The web page of the agent: one HTML file, and the JSON that it shows.
//!
//! ```text
//! /                 the page
//! /api/status       as `sluice status -o json`
//! /api/syncs        the last 100 syncs, the oldest first
//! /api/services     as `sluice status --services -o json`
//! /api/service      ?name=namespace/name: as `sluice status --service -o json`
//! /api/connections  connections of each Service since the agent started; ?name=namespace/name: as
//!                   `sluice status --connections -o json`, of one Service
//! /api/nodes        the nodes, and how many endpoints are on each
//! /api/node         ?name=: the endpoints on one node
//! /api/explain      ?from=&to=&interface=: as `sluice explain -o json`
//! ```
//!
//! An answer has an entity tag (RFC 9110, section 8.8.3): the page asks once a second, and what has not
//! changed is neither computed nor sent again.

mod access;
mod page;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;
use serde::Serialize;
use sluice_model::NamespacedName;
use sluice_plan::{Planner, explain, inventory, topology};
use tokio::sync::oneshot;

pub use access::Token;
pub use page::Page;

use super::metrics::plain;
use super::status::{self, ask, query};
use crate::agent::Input;
use crate::connections::FOR_PEOPLE;
use crate::metrics::Metrics;
use crate::questions::Question;
use crate::status::Status;
use access::Access;

/// The server of the web page.
#[derive(Debug)]
pub struct WebServer {
    /// The address to listen on.
    pub address: SocketAddr,
    /// What clients must show before they get any data; `None` admits everybody who reaches the
    /// address.
    pub token: Option<Token>,
}

struct Web {
    inputs: Sender<Input>,
    metrics: Arc<Metrics>,
    /// Part of every entity tag: revisions of an earlier agent are not ours.
    started: String,
}

type Shared = State<Arc<Web>>;

pub(super) fn routes(server: WebServer, inputs: Sender<Input>, metrics: Arc<Metrics>) -> Router {
    let web = Web {
        inputs: inputs.clone(),
        metrics,
        started: format!("{:x}", Timestamp::now().as_nanosecond()),
    };
    let page = Page::of_agent();
    let data = Router::new()
        .route("/api/status", get(status))
        .route("/api/syncs", get(syncs))
        .route("/api/services", get(services))
        .route("/api/service", get(service))
        .route("/api/connections", get(connections))
        .route("/api/nodes", get(nodes))
        .route("/api/node", get(node))
        .with_state(Arc::new(web))
        .route("/api/explain", get(status::explain).with_state(inputs));
    let pages = Router::new().route("/", get(async move || page.answer()));
    guarded(server, pages, data)
}

/// `pages` for everybody who reaches the server, and `data` for those who know its token. Browsers get both for
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

/// Headers of every answer: no browser keeps it, guesses another type, or gives it to another site. What is no
/// page runs and shows nothing.
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

async fn status(State(web): Shared, headers: HeaderMap) -> Response {
    let (reply, answer) = oneshot::channel();
    let status = match ask(&web.inputs, Input::Status(reply), answer).await {
        Ok(status) => status,
        Err(unavailable) => return unavailable,
    };
    // The page counts the seconds itself.
    let timeless = Status {
        uptime_seconds: 0.0,
        ..status.clone()
    };
    web.answer(&headers, &hash_of(&timeless), &status)
}

async fn syncs(State(web): Shared, headers: HeaderMap) -> Response {
    let (reply, answer) = oneshot::channel();
    match ask(&web.inputs, Input::Syncs(reply), answer).await {
        Ok(syncs) => web.answer(&headers, &hash_of(&syncs), &syncs),
        Err(unavailable) => unavailable,
    }
}

async fn services(State(web): Shared, headers: HeaderMap) -> Response {
    web.question(&headers, |planner| Ok(inventory::services(planner, "")))
        .await
}

async fn service(State(web): Shared, headers: HeaderMap, uri: Uri) -> Response {
    let text = name(&uri);
    web.question(&headers, move |planner| {
        let (namespace, name) = text.split_once('/').unwrap_or_default();
        let name = NamespacedName::new(namespace, name);
        inventory::service(planner, &name).ok_or_else(|| explain::unknown(&name, planner))
    })
    .await
}

async fn nodes(State(web): Shared, headers: HeaderMap) -> Response {
    web.question(&headers, |planner| Ok(topology::nodes(planner)))
        .await
}

async fn node(State(web): Shared, headers: HeaderMap, uri: Uri) -> Response {
    let name = name(&uri);
    web.question(&headers, move |planner| Ok(topology::node(planner, &name)))
        .await
}

/// Connections of each Service.
#[derive(Serialize)]
struct Totals {
    /// By `namespace/name`, without those that are 0.
    services: BTreeMap<String, u64>,
    /// Why nobody counts them; absent where somebody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    uncounted: Option<&'static str>,
}

async fn connections(State(web): Shared, headers: HeaderMap, uri: Uri) -> Response {
    let Some(connections) = web.metrics.connections() else {
        let totals = Totals {
            services: BTreeMap::new(),
            uncounted: Some(web.metrics.plane().uncounted),
        };
        return web.answer(&headers, "uncounted", &totals);
    };
    connections.refresh(FOR_PEOPLE).await;
    let tag = connections.readings().to_string();
    let of_one = query(&uri).remove("name");
    match of_one {
        Some(name) => web.answer(&headers, &tag, &connections.report_of(&name)),
        None => {
            let totals = Totals {
                services: connections.totals(),
                uncounted: None,
            };
            web.answer(&headers, &tag, &totals)
        }
    }
}

impl Web {
    /// The answer to a question about the plan, unless the client has that of this revision.
    async fn question<T: Serialize + Send + 'static>(
        &self,
        headers: &HeaderMap,
        ask_planner: impl FnOnce(&Planner) -> Result<T, String> + Send + 'static,
    ) -> Response {
        let known = self.known(headers).and_then(|it| it.parse().ok());
        let (question, answer) = Question::about(move |planner| {
            let revision = planner.revision();
            let is_news = known != Some(revision);
            (revision, is_news.then(|| ask_planner(planner)))
        });
        match ask(&self.inputs, Input::Question(question), answer).await {
            Ok((_, None)) => StatusCode::NOT_MODIFIED.into_response(),
            Ok((revision, Some(Ok(answer)))) => {
                self.answer(headers, &revision.to_string(), &answer)
            }
            Ok((_, Some(Err(why)))) => plain(StatusCode::BAD_REQUEST, format!("{why}\n")),
            Err(unavailable) => unavailable,
        }
    }

    /// JSON with its tag, or nothing for a client that knows the tag.
    fn answer<T: Serialize>(&self, headers: &HeaderMap, tag: &str, answer: &T) -> Response {
        if self.known(headers) == Some(tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let tag = format!("\"{}-{tag}\"", self.started);
            ([(header::ETAG, tag)], Json(answer)).into_response()
        }
    }

    /// The tag that a client knows of this agent's answers.
    fn known<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let tag = headers.get(header::IF_NONE_MATCH)?.to_str().ok()?;
        let tag = tag.strip_prefix('"')?.strip_suffix('"')?;
        tag.strip_prefix(&*self.started)?.strip_prefix('-')
    }
}

/// A tag of an answer that has no revision. It need not be stable between two agents.
fn hash_of<T: Serialize>(answer: &T) -> String {
    let mut hasher = DefaultHasher::new();
    let text = serde_json::to_string(answer).unwrap_or_default();
    text.hash(&mut hasher);
    format!("{:x}", hasher.finish())
}

/// The parameter `name`; empty without one.
fn name(uri: &Uri) -> String {
    query(uri).remove("name").unwrap_or_default()
}
