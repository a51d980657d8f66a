//! Which network namespaces an interface of this one leads to.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd};

use sluice_netlink::attr::AttrWriter;
use sluice_netlink::message::Message;
use sluice_netlink::request::{Request, RequestError};

use crate::address::open;

const RTM_GETLINK: u16 = 18;
const RTM_NEWNSID: u16 = 88;
const RTM_GETNSID: u16 = 90;

/// `ifinfomsg` is 16 bytes long; [`Request`] writes the first four.
const LINK_HEADER: usize = 16;
const IFLA_LINK_NETNSID: u16 = 37;

/// `linux/net_namespace.h`.
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

/// The number that the calling thread's network namespace has for another one; `None` when it never
/// needed one, so that no interface leads there.
///
/// # Errors
/// Any [`RequestError`].
pub fn namespace_number(namespace: BorrowedFd<'_>) -> Result<Option<i32>, RequestError> {
    let fd = namespace.as_raw_fd().cast_unsigned();
    let request = Request::new("find number of", "network namespace", RTM_GETNSID, |it| {
        it.u32_ne(NETNSA_FD, fd)
    });
    let mut socket = open().map_err(|source| request.failed(source))?;
    let mut number = None;
    request.ask(&mut socket, &mut Vec::new(), &mut |message| {
        if message.kind == RTM_NEWNSID {
            number = message.attrs().u32_ne(NETNSA_NSID).map(u32::cast_signed);
        }
    })?;
    // NETNSA_NSID_NOT_ASSIGNED is -1.
    Ok(number.filter(|it| *it >= 0))
}

/// The numbers of the network namespaces that hold the other ends of the calling thread's interfaces, as
/// of a veth pair.
///
/// # Errors
/// Any [`RequestError`].
pub fn linked_namespaces() -> Result<BTreeSet<i32>, RequestError> {
    let rest = |it: &mut AttrWriter| it.raw(&[0; LINK_HEADER - 4]);
    let request = Request::new("list", "interfaces", RTM_GETLINK, rest);
    let mut socket = open().map_err(|source| request.failed(source))?;
    let mut found = BTreeSet::new();
    let visit = &mut |message: &Message<'_>| {
        let number = message.attrs_at(LINK_HEADER).u32_ne(IFLA_LINK_NETNSID);
        found.extend(number.map(u32::cast_signed));
    };
    request.dump(&mut socket, &mut Vec::new(), visit)?;
    Ok(found)
}
