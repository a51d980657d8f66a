//! The answers on the status socket.
//!
//! ```text
//! /status       what the agent holds, and its last sync
//! /connections  connections of service ports and endpoints
//! /explain      ?from=&to=&interface=: what happens to a packet
//! /services     ?pattern=: a line for each Service
//! /service      ?name=namespace/name: one Service with every endpoint
//! /name         ?name=&type=&from=namespace/pod: what a DNS name is, when the agent has a DNS server
//! ```

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use sluice_model::NamespacedName;
use sluice_plan::{Planner, explain, inventory};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::metrics::plain;
use crate::agent::Input;
use crate::connections::FOR_PEOPLE;
use crate::metrics::Metrics;
use crate::questions::Question;

/// How long a client waits: the agent answers between two syncs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) type Inputs = State<Sender<Input>>;

/// Answers a question about a DNS name: name, type of the record and the pod that asks. JSON, or one line that says
/// what is wrong with the question.
pub type NameAnswers =
    Arc<dyn Fn(&str, &str, Option<&str>) -> Result<String, String> + Send + Sync>;

pub(super) fn routes(
    inputs: Sender<Input>,
    metrics: Arc<Metrics>,
    names: Option<NameAnswers>,
) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/explain", get(explain))
        .route("/services", get(services))
        .route("/service", get(service))
        .with_state(inputs)
        .route("/connections", get(connections))
        .with_state(metrics)
        .route("/name", get(name))
        .with_state(names)
}

async fn status(State(inputs): Inputs) -> Response {
    let (reply, answer) = oneshot::channel();
    match ask(&inputs, Input::Status(reply), answer).await {
        Ok(status) => Json(status).into_response(),
        Err(unavailable) => unavailable,
    }
}

async fn connections(State(metrics): State<Arc<Metrics>>) -> Response {
    let Some(connections) = metrics.connections() else {
        let why = format!("{}\n", metrics.plane().uncounted);
        return plain(StatusCode::NOT_FOUND, why);
    };
    connections.refresh(FOR_PEOPLE).await;
    Json(connections.report()).into_response()
}

pub(super) async fn explain(State(inputs): Inputs, uri: Uri) -> Response {
    let query = query(&uri);
    question(&inputs, move |planner| {
        let of = |name| query.get(name).map(String::as_str);
        let (from, to) = (of("from").unwrap_or_default(), of("to").unwrap_or_default());
        explain::answer(planner, from, to, of("interface"))
    })
    .await
}

async fn services(State(inputs): Inputs, uri: Uri) -> Response {
    let query = query(&uri);
    question(&inputs, move |planner| {
        let pattern = query.get("pattern").map_or("", String::as_str);
        Ok::<_, String>(inventory::services(planner, pattern))
    })
    .await
}

async fn service(State(inputs): Inputs, uri: Uri) -> Response {
    let query = query(&uri);
    question(&inputs, move |planner| {
        let text = query.get("name").map_or("", String::as_str);
        let (namespace, name) = text.split_once('/').unwrap_or_default();
        inventory::service(planner, &NamespacedName::new(namespace, name))
            .ok_or_else(|| explain::unknown(&NamespacedName::new(namespace, name), planner))
    })
    .await
}

async fn name(State(names): State<Option<NameAnswers>>, uri: Uri) -> Response {
    let Some(names) = names else {
        let why = "this agent has no DNS server: start it with --dns\n";
        return plain(StatusCode::NOT_FOUND, why);
    };
    let query = query(&uri);
    let of = |name| query.get(name).map(String::as_str);
    let (name, kind) = (of("name").unwrap_or_default(), of("type").unwrap_or("A"));
    answer(names(name, kind, of("from")))
}

fn answer(answer: Result<String, String>) -> Response {
    match answer {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(why) => plain(StatusCode::BAD_REQUEST, format!("{why}\n")),
    }
}

/// The answer to a question about the plan.
async fn question<T: Serialize, E: fmt::Display>(
    inputs: &Sender<Input>,
    ask_planner: impl FnOnce(&Planner) -> Result<T, E> + Send + 'static,
) -> Response {
    let (question, answer) = Question::new(ask_planner);
    match ask(inputs, Input::Question(question), answer).await {
        Ok(found) => self::answer(found),
        Err(unavailable) => unavailable,
    }
}

/// Asks the agent.
pub(super) async fn ask<T>(
    inputs: &Sender<Input>,
    input: Input,
    answer: oneshot::Receiver<T>,
) -> Result<T, Response> {
    let unavailable = |why| plain(StatusCode::SERVICE_UNAVAILABLE, why);
    if inputs.send(input).is_err() {
        return Err(unavailable("the agent is stopping\n"));
    }
    match timeout(ANSWER_TIMEOUT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(unavailable("the agent is stopping\n")),
        Err(_) => Err(unavailable("the agent is busy with a sync\n")),
    }
}

/// The pairs of a query.
pub(super) fn query(uri: &Uri) -> HashMap<String, String> {
    let text = uri.query().unwrap_or_default().as_bytes();
    form_urlencoded::parse(text).into_owned().collect()
}
