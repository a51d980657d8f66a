//! Waits until new links carry packets.

use std::{collections::BTreeSet, time::Duration};

use nix::{ifaddrs::getifaddrs, net::if_::InterfaceFlags, sys::socket::SockaddrIn6};

use crate::{LabError, Netns, wait::eventually};

/// Timeout for all links of a namespace; they usually need a few milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What makes an interface ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// The carrier is there.
    Running,
    /// The carrier and the link-local address, which IPv6 neighbour discovery needs, are there.
    LinkLocal,
}

/// Waits until all `interfaces` of `netns` are ready.
///
/// The carrier of a veth appears a moment after it was switched on; until then the kernel drops packets.
pub(crate) fn wait(netns: &Netns, interfaces: &[String], ready: Ready) -> Result<(), LabError> {
    let missing = || {
        let now = ready_interfaces(ready);
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

fn ready_interfaces(ready: Ready) -> BTreeSet<String> {
    let link_local =
        |address: Option<&SockaddrIn6>| address.is_some_and(|it| it.ip().is_unicast_link_local());
    getifaddrs()
        .into_iter()
        .flatten()
        .filter(|it| it.flags.contains(InterfaceFlags::IFF_RUNNING))
        .filter(|it| match ready {
            Ready::Running => true,
            Ready::LinkLocal => link_local(
                it.address
                    .as_ref()
                    .and_then(|address| address.as_sockaddr_in6()),
            ),
        })
        .map(|it| it.interface_name)
        .collect()
}
