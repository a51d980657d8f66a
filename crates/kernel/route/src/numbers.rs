//! The kernel's numbers of other network namespaces, and those that the interfaces of this one lead to.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd};

use sluice_netlink::RequestError;
use sluice_netlink::message;
use sluice_netlink::request::Request;

use crate::connection::Connection;
use crate::link::links;

const RTM_NEWNSID: u16 = 88;
const RTM_GETNSID: u16 = 90;

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
    let mut number = None;
    Connection::open()?.ask(&request, message::ACK, &mut |message| {
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
    let links = links()?.into_iter();
    Ok(links.filter_map(|it| it.parent_namespace).collect())
}
