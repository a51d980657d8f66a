//! The addresses of one pod, for a question about it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::Request;
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
    let runtime = super::runtime().map_err(SourceError::Follow)?;
    let connection = Connection::new(client.clone(), Arc::new(|_| {}), TIMEOUT);
    let (namespace, pod) = (&name.namespace, &name.name);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
    let ask = async {
        let request = Request::get(&path).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        connection.client().request::<Pod>(request).await
    };
    let pod = runtime.block_on(ask).map_err(|error| SourceError::Access {
        what: format!("find pod {name}"),
        error: Failure::from(error).to_string(),
    })?;
    let pod = pod.convert(&mut Interner::default()).object;
    Ok(pod.map(|it| it.addresses).unwrap_or_default())
}
