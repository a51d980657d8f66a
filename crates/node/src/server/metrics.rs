//! The pages of the metrics server, for Prometheus and people.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::Timestamp;
use serde_json::Value;
use tracing::error;

use super::answer::{plain, query};
use super::debug::{self, SetVerbosity};
use super::zpages;
use crate::metrics::Metrics;

/// The contents of the metrics server beside the metrics.
#[derive(Debug)]
pub struct MetricsServer {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The data plane, for `/proxyMode`.
    pub mode: &'static str,
    /// The configuration in effect, for `/configz`: an object whose keys are component
    /// configurations.
    pub config: Value,
    /// The flags in effect by name, for `/flagz`.
    pub flags: BTreeMap<String, String>,
    /// Version of the program, for `/statusz`.
    pub version: String,
    /// For `PUT /debug/flags/v`; `None` when profiling is off, and with it all of `/debug/`.
    pub set_verbosity: Option<SetVerbosity>,
}

pub(super) struct Pages {
    metrics: Arc<Metrics>,
    pub(super) server: MetricsServer,
    pub(super) started: Timestamp,
}

pub(super) type Shared = State<Arc<Pages>>;

pub(super) fn routes(server: MetricsServer, metrics: Arc<Metrics>) -> Router {
    let set_verbosity = server.set_verbosity;
    let pages = Arc::new(Pages {
        metrics,
        server,
        started: Timestamp::now(),
    });
    let routes = Router::new()
        .route("/healthz", get(healthz))
        .route("/healthz/{check}", get(one_check))
        .route("/metrics", get(metrics_page))
        .route("/metrics/slis", get(slis))
        .route("/proxyMode", get(proxy_mode))
        .route("/configz", get(configz))
        .route("/flagz", get(zpages::flagz))
        .route("/statusz", get(zpages::statusz))
        .with_state(pages);
    match set_verbosity {
        Some(set_verbosity) => routes.merge(debug::routes(set_verbosity)),
        None => routes,
    }
}

/// Healthy because it answers. `/healthz` of the health server tells whether the rules are up to
/// date.
async fn healthz(State(pages): Shared, uri: Uri) -> Response {
    pages.metrics.slis.pinged();
    let text = if query(&uri).contains_key("verbose") {
        "[+]ping ok\nhealthz check passed\n"
    } else {
        "ok"
    };
    plain(StatusCode::OK, text)
}

async fn one_check(State(pages): Shared, Path(check): Path<String>) -> Response {
    if check != "ping" {
        return plain(StatusCode::NOT_FOUND, "404 page not found\n");
    }
    pages.metrics.slis.pinged();
    plain(StatusCode::OK, "ok")
}

async fn metrics_page(State(pages): Shared) -> Response {
    pages.metrics.prepare().await;
    exposition(pages.metrics.text())
}

async fn slis(State(pages): Shared) -> Response {
    exposition(pages.metrics.slis_text())
}

fn exposition(text: Result<String, prometheus::Error>) -> Response {
    match text {
        Ok(text) => {
            let kind = [(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)];
            (kind, text).into_response()
        }
        Err(error) => {
            error!(%error, "metrics cannot be shown");
            plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))
        }
    }
}

async fn proxy_mode(State(pages): Shared) -> Response {
    plain(StatusCode::OK, pages.server.mode)
}

async fn configz(State(pages): Shared) -> Response {
    zpages::json_page(&pages.server.config)
}
