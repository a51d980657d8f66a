//! The answers on the status socket: `/status`, with the agent's state and its last sync, and the paths of consumers.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use super::answer::{await_answer, json};
use crate::runtime::Control;

pub(super) fn routes(control: Control, of_consumers: Router) -> Router {
    let own = Router::new().route("/status", get(status));
    own.with_state(control).merge(of_consumers)
}

async fn status(State(control): State<Control>) -> Response {
    match await_answer(control.status()).await {
        Ok(status) => json(&status.json()),
        Err(unavailable) => unavailable,
    }
}
