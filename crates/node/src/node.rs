//! The addresses of this node as the kernel has them.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};

use nix::net::if_::if_nametoindex;
use sluice_netlink::RequestError;
use sluice_route::Address;

/// The metric of addresses on `lo` that are the agent's own: nobody gives an address on `lo` a metric by chance, and
/// this one (four letters as a number) not by hand. They do not count as addresses of the node.
pub const OWN_METRIC: u32 = u32::from_be_bytes(*b"sdns");

/// Addresses in documentation prefixes (RFC 5737, RFC 3849), which only the default route leads to.
const FAR_AWAY: [(&str, &str); 2] = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];

/// The source addresses of the default routes, IPv4 first. A family without a route has none.
pub fn default_route_addresses() -> Vec<IpAddr> {
    // Connecting a UDP socket looks up the route and sends nothing.
    let source = |(local, far): (&str, &str)| {
        let socket = UdpSocket::bind(local).ok()?;
        socket.connect(far).ok()?;
        let ip = socket.local_addr().ok()?.ip();
        (!ip.is_unspecified() && !ip.is_loopback()).then_some(ip)
    };
    FAR_AWAY.into_iter().filter_map(source).collect()
}

/// Every usable address of the node, loopback included, without those of the interface `except`, whose addresses are
/// not the node's, and without [the agent's own](OWN_METRIC).
///
/// # Errors
/// The kernel could not list them.
pub fn addresses(except: &str) -> Result<BTreeSet<IpAddr>, RequestError> {
    let except = if_nametoindex(except).ok();
    let all = sluice_route::addresses()?.into_iter();
    let own = all.filter(|it| it.is_usable && Some(it.interface) != except);
    let own = own.filter(|it| !is_ours(it));
    Ok(own.map(|it| it.ip).collect())
}

/// Whether an agent added this address for its own use.
#[must_use]
pub fn is_ours(address: &Address) -> bool {
    address.metric == OWN_METRIC
}

/// An unused port of the loopback address, for tests.
#[cfg(test)]
pub(crate) fn free_port() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("bound")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_has_addresses_and_the_default_route_is_one_of_them() {
        let all = addresses("").expect("permitted to everybody");
        for ip in default_route_addresses() {
            assert!(all.contains(&ip), "{ip} is not among {all:?}");
        }
    }
}
