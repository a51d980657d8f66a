//! Whether an address is the machine's own, as its routes say.

use std::net::Ipv6Addr;

use nix::errno::Errno;

use crate::family::IpFamily;
use crate::message::Message;
use crate::request::{Request, RequestError};
use crate::socket::Socket;

use super::{RTM_GETROUTE, RTM_NEWROUTE};

/// `rtmsg { u8 family, u8 to, u8 from, u8 tos, u8 table, u8 protocol, u8 scope, u8 type, u32 flags }`,
/// of which the writer of requests puts down the first four bytes.
const HEADER: usize = 12;
const TYPE_OFFSET: usize = 7;

const RTA_DST: u16 = 1;
const RTN_LOCAL: u8 = 2;

/// Whether the machine takes in packets to this address.
///
/// # Errors
/// The kernel could not or would not look.
pub(super) fn is_local(
    socket: &mut Socket,
    buffer: &mut Vec<u8>,
    ip: Ipv6Addr,
) -> Result<bool, RequestError> {
    let object = ip.to_string();
    let request = Request {
        operation: "find route to",
        object: &object,
        kind: RTM_GETROUTE,
        family: IpFamily::V6.number(),
        attrs: &|it| {
            it.raw(&[0; HEADER - 4]);
            it.bytes(RTA_DST, &ip.octets());
        },
    };
    let mut found = false;
    let asked = request.ask(socket, buffer, &mut |message| found |= is_to_self(message));
    match asked {
        Err(error) if error.errno().is_some_and(is_route) => Ok(false),
        result => result.map(|()| found),
    }
}

/// Whether this is what the routes say: there is none, or one of the types unreachable, prohibit,
/// blackhole (`fib6_prop`, route.c), as CNIs have them for networks of Services.
fn is_route(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::ENOENT | Errno::EACCES | Errno::EINVAL
    )
}

fn is_to_self(message: &Message<'_>) -> bool {
    message.kind == RTM_NEWROUTE && message.body.get(TYPE_OFFSET) == Some(&RTN_LOCAL)
}
