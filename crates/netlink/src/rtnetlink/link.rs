//! Deleting interfaces.

use nix::errno::Errno;

use crate::request::{Request, RequestError};

use super::address::open;

const RTM_DELLINK: u16 = 17;
const IFLA_IFNAME: u16 = 3;

/// What `struct ifinfomsg` has beyond the four bytes that every header has: index, flags, change.
const REST_OF_IFINFOMSG: [u8; 12] = [0; 12];

/// Deletes an interface with its addresses, in the network namespace of the calling thread;
/// returns whether there was one of this name.
///
/// # Errors
/// Any [`RequestError`]; [`RequestError::Refused`] for one of hardware.
pub fn delete_link(name: &str) -> Result<bool, RequestError> {
    let request = Request {
        operation: "delete interface",
        object: name,
        kind: RTM_DELLINK,
        family: 0,
        attrs: &|writer| {
            writer.raw(&REST_OF_IFINFOMSG);
            writer.string(IFLA_IFNAME, name);
        },
    };
    let mut socket = open().map_err(|source| request.failed(source))?;
    match request.ask(&mut socket, &mut Vec::new(), &mut |_| {}) {
        Ok(()) => Ok(true),
        Err(RequestError::Refused {
            errno: Errno::ENODEV,
            ..
        }) => Ok(false),
        Err(error) => Err(error),
    }
}
