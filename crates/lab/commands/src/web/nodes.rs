//! The data of an agent's page, from the agent itself: it serves on the loopback of its node's namespace.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use sluice_cluster::names::netns_name;
use sluice_cluster::nodes::WEB;
use sluice_lab::Netns;
use sluice_node::chain;

use super::{Shared, blocking};

/// Timeout of the connection to an agent, which is on the same machine.
const CONNECT: Duration = Duration::from_secs(1);

/// Header fields of the agent's answer that are passed on.
const FIELDS: [header::HeaderName; 2] = [header::CONTENT_TYPE, header::ETAG];

/// Passes a request on to the agent of a node.
pub(super) async fn ask_agent(
    State(lab): Shared,
    Path((node, asked)): Path<(String, String)>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let name = node.clone();
    let connected = blocking(lab, move |lab| {
        // Only Nodes are asked: pods and the client have named namespaces, too.
        lab.client.get(&format!("/api/v1/nodes/{name}"))?;
        let netns = Netns::open(&netns_name(&name))?;
        // The node may go at this moment.
        let stream = netns.try_run(|| TcpStream::connect_timeout(&WEB, CONNECT))??;
        stream.set_nonblocking(true)?;
        Ok(stream)
    });
    let query = uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    let target = format!("/api/{asked}{query}");
    let answer = async { pass_on(connected.await?, &target, &headers).await };
    answer.await.unwrap_or_else(|error| {
        let why = chain(error.as_ref());
        let why = format!("the agent of {node} does not answer: {why}\n");
        (StatusCode::BAD_GATEWAY, why).into_response()
    })
}

async fn pass_on(stream: TcpStream, target: &str, headers: &HeaderMap) -> anyhow::Result<Response> {
    let stream = tokio::net::TcpStream::from_std(stream)?;
    let (mut agent, connection) = handshake(TokioIo::new(stream)).await?;
    // The connection ends with the answer.
    tokio::spawn(connection);
    let mut request = Request::get(target).header(header::HOST, WEB.to_string());
    if let Some(known) = headers.get(header::IF_NONE_MATCH) {
        request = request.header(header::IF_NONE_MATCH, known);
    }
    let request = request.body(Body::empty()).context("the request")?;
    let (parts, body) = agent.send_request(request).await?.into_parts();
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = parts.status;
    for field in FIELDS {
        let value: Option<&HeaderValue> = parts.headers.get(&field);
        if let Some(value) = value {
            response.headers_mut().insert(field, value.clone());
        }
    }
    Ok(response)
}
