//! Looks up routes of the machine, one at a time.

use std::net::{IpAddr, Ipv6Addr};

use nix::errno::Errno;
use sluice_netlink::Family;
use sluice_netlink::message;
use sluice_netlink::request::{Request, RequestError};
use sluice_netlink::socket::Socket;

use crate::connection::{Connection, Listed, listed};
use crate::route::{HEADER, RTA_DST, Route, RouteKind};

/// Answer with the entry of the routing table (Linux 4.13).
const RTM_F_FIB_MATCH: u32 = 0x2000;

/// The route of a packet to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Index of the interface that the packet leaves through.
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

/// The route of a packet from this machine to an address, in the network namespace of the calling thread; `None` when
/// there is no route, or one of type unreachable, prohibit or blackhole.
///
/// # Errors
/// Any [`RequestError`] except the result of the lookup.
pub fn way(ip: IpAddr) -> Result<Option<Way>, RequestError> {
    let mut connection = Connection::open()?;
    let mut answers = Vec::new();
    // The first answer is the route of this packet, the second the entry of the table.
    for flags in [0, RTM_F_FIB_MATCH] {
        let object = ip.to_string();
        let request = lookup(&object, ip, flags);
        let mut answer = None;
        let result = connection.ask(&request, message::ACK, &mut |it| {
            answer = listed::<Route>(it);
        });
        match result {
            Err(error) if error.errno().is_some_and(is_route) => return Ok(None),
            result => result?,
        }
        answers.extend(answer);
    }
    Ok(found(&answers))
}

fn found(answers: &[Route]) -> Option<Way> {
    let (packet, entry) = (answers.first()?, answers.last()?);
    let hop = packet.hops.first()?;
    Some(Way {
        interface: hop.interface,
        gateway: hop.gateway,
        source: packet.source,
        prefix: entry.to.prefix_len(),
        is_local: packet.kind == RouteKind::LOCAL,
    })
}

fn lookup(object: &str, ip: IpAddr, flags: u32) -> Request<'_> {
    let request = Request::new("find route to", object, Route::MESSAGES.get, |it| {
        it.raw(&[0; HEADER - 8]);
        it.raw(&flags.to_ne_bytes());
        it.address(RTA_DST, ip);
    });
    request.family(Family::of(ip).number())
}

/// Whether the machine accepts packets to this address.
///
/// # Errors
/// Any [`RequestError`] except the errors of a lookup that finds no local route.
pub(crate) fn is_local(socket: &mut Socket, ip: Ipv6Addr) -> Result<bool, RequestError> {
    let object = ip.to_string();
    let mut found = false;
    let result = lookup(&object, ip.into(), 0).ask(socket, &mut |message| {
        let route = listed::<Route>(message);
        found |= route.is_some_and(|it| it.kind == RouteKind::LOCAL);
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
