//! The paths of the status socket about policies.

use std::net::SocketAddr;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use sluice_model::{NamespacedName, Protocol};
use sluice_node::Handle;
use sluice_node::server::{await_answer, plain, query};
use sluice_policy_plan::lookup::Packet;

use crate::Policies;

const NOT_ENFORCED: &str =
    "this agent enforces no network policies: start it with --network-policy\n";

/// What the policies of this node's pods say about a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyAnswer {
    /// Whether both ends allow it, as far as their pods are on this node.
    pub allowed: bool,
    /// What is said at the source, in words.
    pub egress: String,
    /// What is said at the destination, in words.
    pub ingress: String,
}

/// `/policy?from=ADDRESS&to=ADDRESS:PORT&protocol=`: explains what becomes of a connection, after the translation of a
/// Service's address. `/policy/state?namespace=&name=`: a [`PolicyState`](crate::PolicyState).
/// `/policy/drops?after=`: the [`PolicyDrops`](crate::PolicyDrops) after the one of this number, from 0 on. `None` for an
/// agent that enforces no policies.
pub fn questions(policies: Option<Handle<Policies>>) -> Router {
    Router::new()
        .route("/policy", get(policy))
        .route("/policy/state", get(state))
        .route("/policy/drops", get(drops))
        .with_state(policies)
}

async fn policy(State(policies): State<Option<Handle<Policies>>>, uri: Uri) -> Response {
    let Some(policies) = policies else {
        return plain(StatusCode::NOT_FOUND, NOT_ENFORCED);
    };
    let query = query(&uri);
    let of = |name| query.get(name).map_or("", String::as_str);
    let (Ok(source), Ok(to), Ok(protocol)) = (
        of("from").parse(),
        of("to").parse::<SocketAddr>(),
        of("protocol").parse::<Protocol>(),
    ) else {
        let why = "give from=ADDRESS, to=ADDRESS:PORT and protocol=tcp, udp or sctp\n";
        return plain(StatusCode::BAD_REQUEST, why);
    };
    let packet = Packet {
        source,
        destination: to.ip(),
        port: Some((protocol, to.port())),
    };
    match await_answer(policies.ask(move |it| it.answer(&packet))).await {
        Ok(answer) => Json(answer).into_response(),
        Err(response) => response,
    }
}

async fn state(State(policies): State<Option<Handle<Policies>>>, uri: Uri) -> Response {
    let Some(policies) = policies else {
        // Who waits for a policy waits in vain: 400 ends it, as other answers may change.
        return plain(StatusCode::BAD_REQUEST, NOT_ENFORCED);
    };
    let query = query(&uri);
    let of = |name| query.get(name).map_or("", String::as_str);
    let name = NamespacedName::new(of("namespace"), of("name"));
    match await_answer(policies.ask(move |it| it.state(&name))).await {
        Ok(state) => Json(state).into_response(),
        Err(response) => response,
    }
}

async fn drops(State(policies): State<Option<Handle<Policies>>>, uri: Uri) -> Response {
    let Some(policies) = policies else {
        return plain(StatusCode::BAD_REQUEST, NOT_ENFORCED);
    };
    let query = query(&uri);
    let after = query.get("after").map_or(Ok(0), |it| it.parse());
    let Ok(after) = after else {
        return plain(StatusCode::BAD_REQUEST, "give after=NUMBER\n");
    };
    match await_answer(policies.ask(move |it| it.drops_after(after))).await {
        Ok(Some(drops)) => Json(drops).into_response(),
        Ok(None) => {
            let why = "the kernel does not tell this agent of dropped packets: its log says why\n";
            plain(StatusCode::BAD_REQUEST, why)
        }
        Err(response) => response,
    }
}
