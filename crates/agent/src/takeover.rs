//! Follows a kube-proxy on the same node.

use sluice_netlink::nftables::{Batch, CommitError, Connection, Family, Scope};
use sluice_netlink::{RequestError, SocketError};
use tracing::{info, warn};

use crate::agent::chain;

/// The name of kube-proxy's tables in its nftables mode.
const KUBE_PROXY: &str = "kube-proxy";

/// Why the tables of kube-proxy could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// The kernel could not be reached.
    #[error("remove the tables of kube-proxy")]
    Connect(#[source] SocketError),
    /// The kernel could not be asked which there are.
    #[error("remove the tables of kube-proxy")]
    List(#[source] RequestError),
    /// The kernel did not delete them.
    #[error("remove the tables of kube-proxy")]
    Delete(#[source] CommitError),
}

/// Removes the tables that kube-proxy left, now that ours do the work. What fails is logged:
/// both sets of rules at once are a nuisance, no reason to stop.
pub fn take_over() {
    match remove_kube_proxy_tables() {
        Ok(removed) if removed.is_empty() => {}
        Ok(removed) => info!(
            tables = removed.join(", "),
            "removed the tables of kube-proxy"
        ),
        Err(error) => {
            let error = chain(&error);
            warn!(
                error,
                "tables of kube-proxy stay: its rules and ours both apply"
            );
        }
    }
}

/// Removes the tables of kube-proxy's nftables mode; returns those that were there.
///
/// # Errors
/// [`TakeoverError`]; then all of them are still there.
pub fn remove_kube_proxy_tables() -> Result<Vec<&'static str>, TakeoverError> {
    let mut connection = Connection::open().map_err(TakeoverError::Connect)?;
    let mut batch = Batch::new();
    let mut removed = Vec::new();
    for (family, name) in [
        (Family::Ipv4, "ip kube-proxy"),
        (Family::Ipv6, "ip6 kube-proxy"),
    ] {
        let tables = connection.tables(family).map_err(TakeoverError::List)?;
        if tables.iter().any(|it| it.name == KUBE_PROXY) {
            let table = KUBE_PROXY;
            batch.delete_table(0, Scope { family, table });
            removed.push(name);
        }
    }
    connection.commit(&batch).map_err(TakeoverError::Delete)?;
    Ok(removed)
}
