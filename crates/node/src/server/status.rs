//! The answers on the status socket: `/status`, with the agent's state and its last sync, and the paths of consumers.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use tokio::time::timeout;

use super::answer::{await_answer, json, plain};
use super::programs::Programs;
use crate::runtime::Control;

/// How long the loop may take until the status of before is shown.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn routes(control: Control, programs: Programs, of_consumers: Router) -> Router {
    let own = Router::new().route("/status", get(status));
    own.with_state((control, programs)).merge(of_consumers)
}

/// The status; that of before when the loop is busy.
async fn status(State((control, programs)): State<(Control, Programs)>) -> Response {
    match timeout(PATIENCE, await_answer(control.status())).await {
        Ok(Ok(status)) => json(&status.json()),
        Ok(Err(unavailable)) => unavailable,
        Err(_) => match control.last_status() {
            Some(last) => json(&last.busy_with(programs.busy())),
            None => plain(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the agent is busy: {}\n", programs.busy()),
            ),
        },
    }
}
