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

/// The object or list at a path of the API, with its query. `what` is the operation in errors.
///
/// # Errors
/// [`SourceError::Access`]: the server cannot be reached within 5 s, does not know the object, or does not show it.
pub fn read<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    what: impl Fn() -> String,
) -> Result<T, SourceError> {
    let runtime = super::runtime().map_err(SourceError::Follow)?;
    let connection = Connection::new(client.clone(), Arc::new(|_| {}), TIMEOUT);
    let ask = async {
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        connection.client().request::<T>(request).await
    };
    runtime.block_on(ask).map_err(|error| SourceError::Access {
        what: what(),
        error: Failure::from(error).to_string(),
    })
}
