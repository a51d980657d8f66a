//! The routes of the machine, one lookup at a time.

use std::net::{IpAddr, Ipv6Addr};

use nix::errno::Errno;

use sluice_netlink::message::Message;
use sluice_netlink::request::{Request, RequestError};
use sluice_netlink::socket::Socket;
use sluice_netlink::{Family, octets};

use super::{RTM_GETROUTE, RTM_NEWROUTE};
use crate::address::open;

/// `rtmsg { u8 family, u8 to, u8 from, u8 tos, u8 table, u8 protocol, u8 scope, u8 type, u32 flags }`;
/// [`Request`] writes the first four bytes.
const HEADER: usize = 12;
const TYPE_OFFSET: usize = 7;

const TO_OFFSET: usize = 1;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTN_LOCAL: u8 = 2;
/// Answer with the entry of the routing table (Linux 4.13).
const RTM_F_FIB_MATCH: u32 = 0x2000;

/// The way of a packet to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the interface that it leaves through.
    pub interface: u32,
    /// The next router; `None` on the link itself.
    pub gateway: Option<IpAddr>,
    /// The source address of packets from this machine.
    pub source: Option<IpAddr>,
    /// Length of the prefix in the routing table: 0 for the default route.
    pub prefix: u8,
    /// The address is one of this machine.
    pub is_local: bool,
}

/// The way of a packet from this machine to an address, in the network namespace of the calling thread;
/// `None` when it has no route, or one of type unreachable, prohibit or blackhole.
///
/// # Errors
/// Any [`RequestError`] but the result of the lookup.
pub fn route(ip: IpAddr) -> Result<Option<Route>, RequestError> {
    let object = ip.to_string();
    let mut found = None;
    // The first answer is the way of this packet, the second the entry of the table.
    for flags in [0, RTM_F_FIB_MATCH] {
        let request = Request::new("find route to", &object, RTM_GETROUTE, |it| {
            it.raw(&[[0; 4], flags.to_ne_bytes()].concat());
            it.bytes(RTA_DST, &octets(ip));
        });
        let request = request.family(Family::of(ip).number());
        let mut socket = open().map_err(|source| request.failed(source))?;
        let mut answer = |message: &Message<'_>| match &mut found {
            None => found = Route::decode(message),
            Some(found) => {
                if let Some(prefix) = message.body.get(TO_OFFSET) {
                    found.prefix = *prefix;
                }
            }
        };
        match request.ask(&mut socket, &mut Vec::new(), &mut answer) {
            Err(error) if error.errno().is_some_and(is_route) => return Ok(None),
            result => result?,
        }
    }
    Ok(found)
}

impl Route {
    fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != RTM_NEWROUTE {
            return None;
        }
        let attrs = message.attrs_at(HEADER);
        let family = Family::from_number(message.family())?;
        let address = |kind| family.address(attrs.find(kind)?.value);
        Some(Self {
            interface: attrs.u32_ne(RTA_OIF)?,
            gateway: address(RTA_GATEWAY),
            source: address(RTA_PREFSRC),
            prefix: family.bits(),
            is_local: message.body.get(TYPE_OFFSET) == Some(&RTN_LOCAL),
        })
    }
}

/// Whether the machine accepts packets to this address.
///
/// # Errors
/// Any [`RequestError`] but the errors of a lookup that finds no local route.
pub(crate) fn is_local(
    socket: &mut Socket,
    buffer: &mut Vec<u8>,
    ip: Ipv6Addr,
) -> Result<bool, RequestError> {
    let object = ip.to_string();
    let request = Request::new("find route to", &object, RTM_GETROUTE, |it| {
        it.raw(&[0; HEADER - 4]);
        it.bytes(RTA_DST, &ip.octets());
    })
    .family(Family::Ipv6.number());
    let mut found = false;
    let result = request.ask(socket, buffer, &mut |message| {
        found |= message.kind == RTM_NEWROUTE && message.body.get(TYPE_OFFSET) == Some(&RTN_LOCAL);
    });
    match result {
        Err(error) if error.errno().is_some_and(is_route) => Ok(false),
        result => result.map(|()| found),
    }
}

/// Whether the error is the result of the lookup: no route, or a route of type unreachable, prohibit
/// or blackhole (`fib6_prop`, route.c), which some CNIs have for networks of Services.
fn is_route(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::ENOENT | Errno::EACCES | Errno::EINVAL
    )
}
