//! Interfaces: those of kind `dummy` made, any looked at, deleted.

use nix::errno::Errno;

use crate::attr::{AttrWriter, Attrs};
use crate::message::{self, Message};
use crate::request::{Request, RequestError};

use super::address::open;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

/// `ifinfomsg { u8 family, u8 padding, u16 hardware, u32 index, u32 flags, u32 change }`; the
/// writer of requests puts down the first four bytes.
const HEADER: usize = 16;
const INDEX_OFFSET: usize = 4;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number in its network namespace, from 1.
    pub index: u32,
    /// Its kind, as `dummy` or `veth`; `None` for one of hardware, and for loopback.
    pub kind: Option<String>,
}

impl Link {
    fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != RTM_NEWLINK {
            return None;
        }
        let index = message.body.get(INDEX_OFFSET..)?.first_chunk()?;
        let attrs = Attrs::new(message.body.get(HEADER..)?);
        let kind = attrs.find(IFLA_LINKINFO);
        let kind = kind.and_then(|it| it.nested().find(IFLA_INFO_KIND));
        Some(Self {
            index: u32::from_ne_bytes(*index),
            kind: kind.and_then(|it| it.str()).map(str::to_owned),
        })
    }
}

/// The interface of this name in the network namespace of the calling thread; `None` when there is
/// none.
///
/// # Errors
/// Any [`RequestError`].
pub fn link(name: &str) -> Result<Option<Link>, RequestError> {
    let mut found = None;
    let request = Request {
        operation: "find interface",
        object: name,
        kind: RTM_GETLINK,
        family: 0,
        attrs: &|it| named(it, name),
    };
    let asked = ask(&request, message::ACK, &mut |message| {
        found = Link::decode(message);
    });
    unless(Errno::ENODEV, asked).map(|_| found)
}

/// Makes an interface of kind `dummy`, switched off, in the network namespace of the calling
/// thread; returns whether there was none of this name. May make the kernel load a module.
///
/// # Errors
/// Any [`RequestError`]; [`RequestError::Refused`] with `EOPNOTSUPP` when the kernel has no such
/// kind.
pub fn create_dummy(name: &str) -> Result<bool, RequestError> {
    let request = Request {
        operation: "create dummy interface",
        object: name,
        kind: RTM_NEWLINK,
        family: 0,
        attrs: &|writer| {
            named(writer, name);
            writer.nested(IFLA_LINKINFO, |it| it.string(IFLA_INFO_KIND, "dummy"));
        },
    };
    let flags = message::ACK | message::CREATE | message::EXCLUSIVE;
    match unless(Errno::EEXIST, ask(&request, flags, &mut |_| {})) {
        Err(RequestError::Refused {
            operation,
            object,
            errno: errno @ Errno::EOPNOTSUPP,
            ..
        }) => Err(RequestError::Refused {
            operation,
            object,
            errno,
            message: Some("the kernel has no module dummy".to_owned()),
        }),
        result => result,
    }
}

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
        attrs: &|it| named(it, name),
    };
    unless(Errno::ENODEV, ask(&request, message::ACK, &mut |_| {}))
}

fn ask(
    request: &Request<'_>,
    flags: u16,
    visit: &mut dyn FnMut(&Message<'_>),
) -> Result<(), RequestError> {
    let mut socket = open().map_err(|source| request.failed(source))?;
    request.exchange(&mut socket, &mut Vec::new(), flags, visit)
}

/// Writes the rest of `struct ifinfomsg`, without flags, and the name.
fn named(writer: &mut AttrWriter, name: &str) {
    writer.raw(&[0; HEADER - 4]);
    writer.string(IFLA_IFNAME, name);
}

/// `false` when the kernel refused with this number.
fn unless(expected: Errno, result: Result<(), RequestError>) -> Result<bool, RequestError> {
    match result {
        Err(RequestError::Refused { errno, .. }) if errno == expected => Ok(false),
        result => result.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_link_is_read() {
        let mut writer = AttrWriter::new();
        writer.raw(&[0; 4]);
        writer.raw(&7_u32.to_ne_bytes());
        writer.raw(&[0; 8]);
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
            kind: Some("dummy".to_owned()),
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
