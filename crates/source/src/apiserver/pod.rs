//! Objects that are read once, for a question about them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::Request;
use serde::de::DeserializeOwned;
use sluice_model::NamespacedName;

use super::access::Client;
use super::connection::Connection;
use super::failure::Failure;
use crate::SourceError;
use crate::convert::Interner;
use crate::kind::Kind as _;
use crate::kinds::Pod;

const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a server may take to say that it is well: whoever asks waits for it.
const READY: Duration = Duration::from_millis(1500);

/// The addresses of a pod, none before it has one and after it has ended.
///
/// # Errors
/// [`SourceError::Access`]: the server does not know the pod, or does not show it.
pub fn pod_addresses(client: &Client, name: &NamespacedName) -> Result<Vec<IpAddr>, SourceError> {
    let (namespace, pod) = (&name.namespace, &name.name);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
    let pod: Pod = read(client, &path, || format!("find pod {name}"))?;
    let pod = pod.convert(&mut Interner::default()).object;
    Ok(pod.map(|it| it.addresses).unwrap_or_default())
}

/// Asks the server whether it is well.
///
/// # Errors
/// [`SourceError::Access`]: it says nothing for 1.5 s, or answers with the status of a failure (5xx).
pub fn ready(client: &Client) -> Result<(), SourceError> {
    let asked = ask(client, "/readyz", READY, |client, request| async move {
        client.request_text(request).await
    });
    // Who may not ask has an answer.
    match asked?.map_err(Failure::from) {
        Err(failure) if failure.code().is_none_or(|it| it >= 500) => Err(SourceError::Access {
            what: "ask the API server for /readyz".to_owned(),
            error: failure.to_string(),
        }),
        _ => Ok(()),
    }
}

/// The object or list at a path of the API, with its query. `what` is the operation in errors.
///
/// # Errors
/// [`SourceError::Access`]: the server cannot be reached within 5 s, does not know the object, or does not show it.
pub fn read<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    what: impl Fn() -> String,
) -> Result<T, SourceError> {
    let asked = ask(client, path, TIMEOUT, |client, request| async move {
        client.request(request).await
    });
    asked?.map_err(|error| SourceError::Access {
        what: what(),
        error: Failure::from(error).to_string(),
    })
}

/// Sends a request for a path. `send` reads the answer.
fn ask<T, F>(
    client: &Client,
    path: &str,
    within: Duration,
    send: impl FnOnce(kube::Client, Request<Vec<u8>>) -> F,
) -> Result<kube::Result<T>, SourceError>
where
    F: Future<Output = kube::Result<T>>,
{
    let runtime = super::runtime().map_err(SourceError::Follow)?;
    let connection = Connection::new(client.clone(), Arc::new(|_| {}), within);
    let asked = async {
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        send(connection.client(), request).await
    };
    let answer = runtime.block_on(asked);
    // What still waits for a name or a connection is of no use.
    runtime.shutdown_background();
    Ok(answer)
}
