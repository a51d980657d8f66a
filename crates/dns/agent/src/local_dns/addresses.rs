//! The addresses on `lo`.
//!
//! They are known by the metric of their routes, which both families have and every listing shows. They
//! are no addresses of the node: NodePorts do not answer there, and no Service shadows them.

use std::net::IpAddr;

use nix::net::if_::if_nametoindex;
use sluice_netlink::{Errno, RequestError};
use sluice_node::node::{OWN_METRIC, is_ours};
use sluice_node::{NodeError, failed};
use sluice_route::{AddressChange, Addresses};
use tracing::warn;

const LOOPBACK: &str = "lo";

/// Shown by `ip address` for IPv4.
const LABEL: &str = "lo:sluice-dns";

/// Adds these addresses to `lo`, and removes our other addresses. Returns the addresses that the machine has then:
/// without those of IPv6 where it is switched off.
pub(super) fn provide(wanted: &[IpAddr]) -> Result<Vec<IpAddr>, NodeError> {
    let operation = "put the addresses of the DNS server on lo";
    let lo = if_nametoindex(LOOPBACK).map_err(failed(operation))?;
    let known = sluice_route::addresses().map_err(failed(operation))?;
    let on_lo = || known.iter().filter(|it| it.interface == lo);
    let stale = on_lo().filter(|it| is_ours(it) && !wanted.contains(&it.ip));
    // The kernel cannot change the scope of an existing address.
    let foreign = on_lo().filter(|it| !is_ours(it) && wanted.contains(&it.ip));
    let mut changes: Vec<AddressChange> = stale
        .chain(foreign)
        .map(|it| AddressChange::Delete(it.ip))
        .collect();
    let first = changes.len();
    changes.extend(wanted.iter().map(|ip| AddressChange::AddOwn {
        ip: *ip,
        label: LABEL,
        metric: OWN_METRIC,
    }));
    let mut kernel = Addresses::open().map_err(failed(operation))?;
    let applied = kernel.apply(lo, &changes).map_err(failed(operation))?;
    if let Some(late) = applied.late {
        return Err(failed(operation)(late.to_string()));
    }
    let mut present = wanted.to_vec();
    for refused in applied.refused {
        let ip = refused.index.checked_sub(first).map(|it| wanted[it]);
        match ip {
            Some(ip) if ip.is_ipv6() && is_without_ipv6(&refused.error) => {
                warn!(%ip, "this machine has no IPv6: its DNS server does not answer there");
                present.retain(|it| *it != ip);
            }
            _ => return Err(failed(operation)(refused.error)),
        }
    }
    Ok(present)
}

fn is_without_ipv6(error: &RequestError) -> bool {
    let errno = match error {
        RequestError::Refused { errno, .. } => *errno,
        _ => return false,
    };
    matches!(errno, Errno::EACCES | Errno::EOPNOTSUPP)
}

/// The addresses of a DNS server on `lo` that a Sluice added. `operation` is for the error.
pub(super) fn ours(operation: &'static str) -> Result<Vec<IpAddr>, NodeError> {
    let lo = if_nametoindex(LOOPBACK).map_err(failed(operation))?;
    let known = sluice_route::addresses().map_err(failed(operation))?;
    let ours = known.iter().filter(|it| it.interface == lo && is_ours(it));
    Ok(ours.map(|it| it.ip).collect())
}

/// Removes the addresses of a DNS server from `lo` that a Sluice put there, and returns them.
pub(super) fn clean_up() -> Result<Vec<IpAddr>, NodeError> {
    let operation = "remove the addresses of the DNS server from lo";
    let lo = if_nametoindex(LOOPBACK).map_err(failed(operation))?;
    let ours = ours(operation)?;
    let changes: Vec<AddressChange> = ours.iter().copied().map(AddressChange::Delete).collect();
    let mut kernel = Addresses::open().map_err(failed(operation))?;
    let applied = kernel.apply(lo, &changes).map_err(failed(operation))?;
    match applied.refused.into_iter().next() {
        Some(refused) => Err(failed(operation)(refused.error)),
        None => Ok(ours),
    }
}
