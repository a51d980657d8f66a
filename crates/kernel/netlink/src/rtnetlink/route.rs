//! Whether an address is local, by the routes of the machine.

use std::net::Ipv6Addr;

use nix::errno::Errno;

use crate::family::Family;
use crate::request::{Request, RequestError};
use crate::socket::Socket;

use super::{RTM_GETROUTE, RTM_NEWROUTE};

/// `rtmsg { u8 family, u8 to, u8 from, u8 tos, u8 table, u8 protocol, u8 scope, u8 type, u32 flags }`;
/// [`Request`] writes the first four bytes.
const HEADER: usize = 12;
const TYPE_OFFSET: usize = 7;

const RTA_DST: u16 = 1;
const RTN_LOCAL: u8 = 2;

/// Whether the machine accepts packets to this address.
///
/// # Errors
/// Any [`RequestError`] but the errors of a lookup that finds no local route.
pub(super) fn is_local(
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
