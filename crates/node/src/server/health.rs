//! The pages of the health server: `/healthz`, `/livez` and `/readyz`.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp;

use crate::health::{Health, Probe};
use crate::metrics::Metrics;

#[derive(Clone)]
struct Shared {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

pub(super) fn routes(health: Arc<Health>, metrics: Arc<Metrics>) -> Router {
    let of = |probe| get(async move |State(shared): State<Shared>| answer(probe, &shared));
    Router::new()
        .route("/healthz", of(Probe::Healthz))
        .route("/livez", of(Probe::Livez))
        .route("/readyz", of(Probe::Readyz))
        .with_state(Shared { health, metrics })
}

fn answer(probe: Probe, shared: &Shared) -> Response {
    let report = shared
        .health
        .report(probe, Instant::now(), Timestamp::now());
    let status = if report.is_ok() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    shared.metrics.probed(probe, status.as_u16());
    let nosniff = [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, nosniff, Json(report)).into_response()
}
