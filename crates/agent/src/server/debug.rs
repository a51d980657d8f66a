//! `/debug/...`: served only where profiling is on.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::put;

use super::metrics::plain;

/// Bytes of a new verbosity.
const LARGEST_VERBOSITY: usize = 64;

/// Changes the verbosity; an error says why the text is none.
pub type SetVerbosity = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// What `/debug/...` needs.
pub struct Profiling {
    /// For `PUT /debug/flags/v`.
    pub set_verbosity: SetVerbosity,
}

impl fmt::Debug for Profiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Profiling")
    }
}

pub(super) fn routes(profiling: Profiling) -> Router {
    Router::new()
        .route("/debug/flags/v", put(set_verbosity))
        .layer(DefaultBodyLimit::max(LARGEST_VERBOSITY))
        .with_state(Arc::new(profiling))
}

async fn set_verbosity(State(profiling): State<Arc<Profiling>>, body: String) -> Response {
    let text = body.trim();
    match (profiling.set_verbosity)(text) {
        Ok(()) => plain(StatusCode::OK, format!("successfully set v to {text}\n")),
        Err(problem) => plain(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    }
}
