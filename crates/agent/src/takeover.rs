//! Follows a kube-proxy on the same node.

use std::error::Error;

use sluice_netlink::nftables::{Batch, Connection, Family, Scope};
use tracing::{info, warn};

use crate::agent::chain;

/// The name of kube-proxy's tables in its nftables mode.
const KUBE_PROXY: &str = "kube-proxy";

/// Removes the tables that kube-proxy left, now that ours do the work. What fails is logged:
/// both sets of rules at once are a nuisance, no reason to stop.
pub fn remove_kube_proxy_tables() {
    match remove() {
        Ok(removed) if removed.is_empty() => {}
        Ok(removed) => info!(
            tables = removed.join(", "),
            "removed the tables of kube-proxy"
        ),
        Err(error) => {
            let error = chain(&*error);
            warn!(
                error,
                "tables of kube-proxy stay: its rules and ours both apply"
            );
        }
    }
}

fn remove() -> Result<Vec<&'static str>, Box<dyn Error>> {
    let mut connection = Connection::open()?;
    let mut batch = Batch::new();
    let mut removed = Vec::new();
    for (family, name) in [
        (Family::Ipv4, "ip kube-proxy"),
        (Family::Ipv6, "ip6 kube-proxy"),
    ] {
        let tables = connection.tables(family)?;
        if tables.iter().any(|it| it.name == KUBE_PROXY) {
            let table = KUBE_PROXY;
            batch.delete_table(0, Scope { family, table });
            removed.push(name);
        }
    }
    connection.commit(&batch)?;
    Ok(removed)
}
