//! Waits until new links carry packets.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::{LabError, Netns, wait::eventually};

/// Timeout for all links of a namespace; they usually need a few milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Of an address of this machine (`RTF_LOCAL` in `linux/ipv6_route.h`).
const LOCAL: u32 = 0x8000_0000;

/// What makes an interface ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// The carrier is there.
    Running,
    /// The carrier and the link-local address, which IPv6 neighbour discovery needs, are there, and every other IPv6 address
    /// receives packets.
    Ipv6,
}

/// Waits until all `interfaces` of `netns` are ready.
///
/// The carrier of a veth appears a moment after it was switched on; until then the kernel drops packets. And a work queue of
/// the whole machine (`addrconf_dad_work`, addrconf.c) makes the local route of an IPv6 address and joins its multicast
/// group: who looks for the address before that asks again after a second.
pub(crate) fn wait(netns: &Netns, interfaces: &[String], ready: Ready) -> Result<(), LabError> {
    let missing = || {
        let now = ready_interfaces(interfaces, ready);
        interfaces
            .iter()
            .filter(|it| !now.contains(*it))
            .cloned()
            .collect::<Vec<_>>()
    };
    netns.run(
        || match eventually(TIMEOUT, || missing().is_empty().then_some(())) {
            Some(()) => Ok(()),
            None => Err(LabError::NotReady {
                object: netns.name().to_owned(),
                missing: missing().join(", "),
            }),
        },
    )
}

/// Waits until `eth0` of `netns` receives packets for an address that it was just given.
pub(crate) fn address(netns: &Netns, ip: IpAddr) -> Result<(), LabError> {
    match ip {
        IpAddr::V4(_) => Ok(()),
        IpAddr::V6(_) => wait(netns, &["eth0".to_owned()], Ready::Ipv6),
    }
}

fn ready_interfaces(interfaces: &[String], ready: Ready) -> BTreeSet<String> {
    let (mut found, mut others) = (BTreeSet::new(), Vec::new());
    for it in getifaddrs().into_iter().flatten() {
        let is_running = it.flags.contains(InterfaceFlags::IFF_RUNNING);
        if !is_running || !interfaces.contains(&it.interface_name) {
            continue;
        }
        let ip = it.address.and_then(|it| Some(it.as_sockaddr_in6()?.ip()));
        match (ready, ip) {
            (Ready::Ipv6, None) => {}
            (Ready::Ipv6, Some(ip)) if !ip.is_unicast_link_local() => {
                others.push((it.interface_name, ip));
            }
            _ => {
                found.insert(it.interface_name);
            }
        }
    }
    let received = if others.is_empty() {
        BTreeSet::new()
    } else {
        local_addresses()
    };
    for (interface, _) in others.iter().filter(|(_, ip)| !received.contains(ip)) {
        found.remove(interface);
    }
    found
}

/// The IPv6 addresses with a local route.
fn local_addresses() -> BTreeSet<Ipv6Addr> {
    let routes = fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
    routes.lines().filter_map(local_address).collect()
}

/// The destination of a line `destination length source length hop metric references uses flags interface`, all in
/// hexadecimal (`rt6_info_route`, route.c), if it is an address of this machine.
fn local_address(line: &str) -> Option<Ipv6Addr> {
    let words: Vec<_> = line.split_whitespace().collect();
    let flags = u32::from_str_radix(words.get(8)?, 16).ok()?;
    let destination = u128::from_str_radix(words[0], 16).ok()?;
    (flags & LOCAL != 0).then(|| destination.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_routes_are_known_by_their_flag() {
        for (flags, expect) in [("80200001", Some("fd00:100::4d")), ("00000001", None)] {
            let line = format!(
                "fd00010000000000000000000000004d 80 {0} 00 {0} 00000000 00000001 00000000 {flags}     eth0",
                "0".repeat(32)
            );
            let expect = expect.map(|it| it.parse().unwrap());
            assert_eq!(local_address(&line), expect);
        }
    }
}
