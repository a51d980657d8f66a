//! Interfaces: find, list, delete, and create those of kind `dummy` and `vxlan`.

use nix::errno::Errno;

use sluice_netlink::attr::{AttrWriter, Attrs};
use sluice_netlink::message::{self, Message};
use sluice_netlink::request::{Request, RequestError, unless};

use crate::address::open;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_UDP_ZERO_CSUM6_TX: u16 = 19;
const IFLA_VXLAN_UDP_ZERO_CSUM6_RX: u16 = 20;
const IFLA_VXLAN_GBP: u16 = 23;
const IFLA_VXLAN_COLLECT_METADATA: u16 = 25;
const IFF_UP: u32 = 1;

/// `ifinfomsg { u8 family, u8 padding, u16 hardware, u32 index, u32 flags, u32 change }`;
/// [`Request`] writes the first four bytes.
const HEADER: usize = 16;
const INDEX_LENGTH: usize = 4;
const HARDWARE_OFFSET: usize = 2;
const INDEX_OFFSET: usize = 4;
/// `linux/if_arp.h`.
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number in its network namespace, from 1.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its kind, as `dummy` or `veth`; `None` for hardware and for loopback.
    pub kind: Option<String>,
    /// The largest packet that it sends, in bytes.
    pub mtu: u32,
    /// The UDP port of a VXLAN tunnel.
    pub vxlan_port: Option<u16>,
    /// Index of the bridge or bond that it is a port of.
    pub master: Option<u32>,
    /// Its packets have an Ethernet header; those of loopback have one too.
    pub has_ethernet: bool,
}

impl Link {
    fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != RTM_NEWLINK {
            return None;
        }
        let attrs = message.attrs_at(HEADER);
        Some(Self {
            index: message.u32_at(INDEX_OFFSET)?,
            name: attrs.string(IFLA_IFNAME)?,
            mtu: attrs.u32_ne(IFLA_MTU).unwrap_or_default(),
            master: attrs.u32_ne(IFLA_MASTER),
            kind: attrs.nested(IFLA_LINKINFO).string(IFLA_INFO_KIND),
            vxlan_port: vxlan_port(&attrs.nested(IFLA_LINKINFO)),
            has_ethernet: matches!(
                message.u16_at(HARDWARE_OFFSET)?,
                ARPHRD_ETHER | ARPHRD_LOOPBACK
            ),
        })
    }
}

fn vxlan_port(info: &Attrs<'_>) -> Option<u16> {
    let is_vxlan = info.str(IFLA_INFO_KIND) == Some("vxlan");
    let data = is_vxlan.then(|| info.nested(IFLA_INFO_DATA))?;
    data.u16_be(IFLA_VXLAN_PORT)
}

/// The interface of this name in the network namespace of the calling thread; `None` when there is
/// none.
///
/// # Errors
/// Any [`RequestError`].
pub fn link(name: &str) -> Result<Option<Link>, RequestError> {
    let mut found = None;
    let attrs = |it: &mut AttrWriter| put_name(it, name);
    let request = Request::new("find interface", name, RTM_GETLINK, attrs);
    let result = exchange(&request, message::ACK, &mut |message| {
        found = Link::decode(message);
    });
    unless(Errno::ENODEV, result).map(|_| found)
}

/// Every interface in the network namespace of the calling thread.
///
/// # Errors
/// Any [`RequestError`].
pub fn links() -> Result<Vec<Link>, RequestError> {
    let attrs = |it: &mut AttrWriter| it.raw(&[0; HEADER - 4]);
    let request = Request::new("list", "interfaces", RTM_GETLINK, attrs);
    let mut socket = open().map_err(|source| request.failed(source))?;
    let mut found = Vec::new();
    request.dump(&mut socket, &mut Vec::new(), &mut |message| {
        found.extend(Link::decode(message));
    })?;
    Ok(found)
}

/// Creates an interface of kind `dummy`, switched off, in the network namespace of the calling
/// thread; `false` when there is an interface of this name. May make the kernel load a module.
///
/// # Errors
/// Any [`RequestError`]; [`RequestError::Refused`] with `EOPNOTSUPP` when the kernel lacks the kind.
pub fn create_dummy(name: &str) -> Result<bool, RequestError> {
    let request = Request::new("create dummy interface", name, RTM_NEWLINK, |it| {
        put_name(it, name);
        it.nested(IFLA_LINKINFO, |it| it.string(IFLA_INFO_KIND, "dummy"));
    });
    let flags = message::ACK | message::CREATE | message::EXCLUSIVE;
    let mut result = exchange(&request, flags, &mut |_| {});
    if let Err(RequestError::Refused { errno, message, .. }) = &mut result
        && *errno == Errno::EOPNOTSUPP
    {
        *message = Some("the kernel has no module dummy".to_owned());
    }
    unless(Errno::EEXIST, result)
}

/// Creates a VXLAN tunnel, switched on, whose packets each say where they go (`external`), with group policy, in
/// the network namespace of the calling thread. `port`: of UDP, for both directions.
///
/// # Errors
/// Any [`RequestError`]; [`RequestError::Refused`] with `EOPNOTSUPP` when the kernel lacks the kind, with
/// `EADDRINUSE` when another program has the port.
pub fn create_vxlan(name: &str, port: u16, mtu: u32) -> Result<(), RequestError> {
    let request = Request::new("create VXLAN interface", name, RTM_NEWLINK, |it| {
        // Index 0, and the flags that are set and changed.
        it.raw(&[0; INDEX_LENGTH]);
        it.raw(&IFF_UP.to_ne_bytes());
        it.raw(&IFF_UP.to_ne_bytes());
        it.string(IFLA_IFNAME, name);
        it.u32_ne(IFLA_MTU, mtu);
        it.nested(IFLA_LINKINFO, |it| {
            it.string(IFLA_INFO_KIND, "vxlan");
            it.nested(IFLA_INFO_DATA, |it| {
                it.bytes(IFLA_VXLAN_COLLECT_METADATA, &[1]);
                it.bytes(IFLA_VXLAN_LEARNING, &[0]);
                it.bytes(IFLA_VXLAN_PORT, &port.to_be_bytes());
                it.bytes(IFLA_VXLAN_GBP, &[]);
                // The packets inside have checksums of their own.
                it.bytes(IFLA_VXLAN_UDP_ZERO_CSUM6_TX, &[1]);
                it.bytes(IFLA_VXLAN_UDP_ZERO_CSUM6_RX, &[1]);
            });
        });
    });
    let flags = message::ACK | message::CREATE | message::EXCLUSIVE;
    exchange(&request, flags, &mut |_| {})
}

/// Deletes an interface and its addresses, in the network namespace of the calling thread; `false`
/// when there is no interface of this name.
///
/// # Errors
/// Any [`RequestError`]; [`RequestError::Refused`] for an interface of hardware.
pub fn delete_link(name: &str) -> Result<bool, RequestError> {
    let attrs = |it: &mut AttrWriter| put_name(it, name);
    let request = Request::new("delete interface", name, RTM_DELLINK, attrs);
    unless(Errno::ENODEV, exchange(&request, message::ACK, &mut |_| {}))
}

fn exchange(
    request: &Request<'_>,
    flags: u16,
    visit: &mut dyn FnMut(&Message<'_>),
) -> Result<(), RequestError> {
    let mut socket = open().map_err(|source| request.failed(source))?;
    request.exchange(&mut socket, &mut Vec::new(), flags, visit)
}

/// Writes the rest of `struct ifinfomsg`, without flags, and the name.
fn put_name(writer: &mut AttrWriter, name: &str) {
    writer.raw(&[0; HEADER - 4]);
    writer.string(IFLA_IFNAME, name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_link_is_read() {
        let mut writer = AttrWriter::new();
        let [low, high] = ARPHRD_ETHER.to_ne_bytes();
        writer.raw(&[0, 0, low, high]);
        writer.raw(&7_u32.to_ne_bytes());
        writer.raw(&[0; 8]);
        writer.string(IFLA_IFNAME, "d0");
        writer.u32_ne(IFLA_MTU, 1500);
        writer.nested(IFLA_LINKINFO, |it| it.string(IFLA_INFO_KIND, "dummy"));
        let message = |kind| Message {
            kind,
            flags: 0,
            sequence: 0,
            port: 0,
            body: writer.as_bytes(),
        };
        let link = Link {
            index: 7,
            name: "d0".to_owned(),
            vxlan_port: None,
            mtu: 1500,
            master: None,
            kind: Some("dummy".to_owned()),
            has_ethernet: true,
        };
        assert_eq!(Link::decode(&message(RTM_NEWLINK)), Some(link));
        assert_eq!(Link::decode(&message(RTM_DELLINK)), None);
    }

    proptest! {
        #[test]
        fn never_panics_on_random_messages(body in prop::collection::vec(0_u8..24, 0..60)) {
            let message = Message { kind: RTM_NEWLINK, flags: 0, sequence: 0, port: 0, body: &body };
            let _ = Link::decode(&message);
        }
    }
}
