//! The interface of direct server return: a VXLAN tunnel to every node.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sluice_netlink::RequestError;
use sluice_route::{Connection, Kind, Settings, Vxlan, links, way};
use tracing::debug;

/// Its name.
pub(crate) const NAME: &str = "sluice-dsr";

/// What the tunnel adds to a packet: outer Ethernet is not counted in an MTU, the inner one is. IPv6 40, UDP 8,
/// VXLAN 8, Ethernet 14.
const OVERHEAD: u32 = 70;
/// The MTU of Ethernet, where no route tells.
const USUAL_MTU: u32 = 1500;
/// IPv6 has no smaller one (RFC 8200, 5).
const SMALLEST_MTU: u32 = 1280;

/// Makes the tunnel, unless an earlier agent made the same. Returns its number.
///
/// # Errors
///
/// The kernel has no VXLAN, or another program has the port.
pub fn create(port: u16) -> Result<u32, RequestError> {
    let mtu = underlay_mtu().saturating_sub(OVERHEAD).max(SMALLEST_MTU);
    let mut connection = Connection::open()?;
    if let Some(known) = connection.link(NAME)? {
        if known.vxlan.is_some_and(|it| it.port == port) && known.mtu == mtu {
            return Ok(known.index);
        }
        remove()?;
    }
    // Each packet says where it goes, and with which mark.
    let tunnel = Vxlan {
        group_policy: true,
        zero_checksum: true,
        ..Vxlan::new(None, port)
    };
    let settings = Settings {
        mtu: Some(mtu),
        up: Some(true),
        ..Settings::default()
    };
    connection.create(NAME, &Kind::Vxlan(tunnel), &settings)?;
    connection.index(NAME)
}

/// Removes the tunnel; whether there was one.
///
/// # Errors
///
/// The kernel refuses.
pub(crate) fn remove() -> Result<bool, RequestError> {
    Connection::open()?.delete_link(NAME)
}

/// The MTU of the way to other networks, which is that to other nodes.
fn underlay_mtu() -> u32 {
    // Addresses for documentation: they have the default route.
    let elsewhere = [
        IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    ];
    let links = links().unwrap_or_default();
    let mtus = elsewhere.iter().filter_map(|ip| {
        let way = way(*ip).ok()??;
        let link = links.iter().find(|it| it.index == way.interface)?;
        debug!(
            interface = link.name,
            mtu = link.mtu,
            "the tunnel's packets leave here"
        );
        Some(link.mtu)
    });
    mtus.min().unwrap_or(USUAL_MTU)
}
