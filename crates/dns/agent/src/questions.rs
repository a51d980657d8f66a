//! The path of the status socket about names.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use sluice_node::server::{json, plain, query};

/// Answers a question about a DNS name: name, type of the record, and the pod of the client. The result is JSON, or
/// one line that says why the question is invalid.
pub type NameAnswers =
    Arc<dyn Fn(&str, &str, Option<&str>) -> Result<String, String> + Send + Sync>;

/// `/name?name=&type=&from=namespace/pod`: explains a DNS name. `None` for an agent without DNS server.
pub fn questions(names: Option<NameAnswers>) -> Router {
    Router::new().route("/name", get(name)).with_state(names)
}

async fn name(State(names): State<Option<NameAnswers>>, uri: Uri) -> Response {
    let Some(names) = names else {
        let why = "this agent has no DNS server: start it with --dns\n";
        return plain(StatusCode::NOT_FOUND, why);
    };
    let query = query(&uri);
    let of = |name| query.get(name).map(String::as_str);
    let (name, kind) = (of("name").unwrap_or_default(), of("type").unwrap_or("A"));
    match names(name, kind, of("from")) {
        Ok(answer) => json(&answer),
        Err(why) => plain(StatusCode::BAD_REQUEST, format!("{why}\n")),
    }
}
