//! Sets of `ipset`: names, members, removal.
//!
//! Numbers and layouts are those of `linux/netfilter/ipset/ip_set.h`.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::errno::Errno;

use crate::attr::{AttrWriter, Attrs};
use crate::request::{Request, RequestError};
use crate::socket::{Socket, SocketError};

/// `NFNL_SUBSYS_IPSET`.
pub(crate) const SUBSYSTEM: u16 = 6;

const IPSET_CMD_DESTROY: u16 = 3;
const IPSET_CMD_LIST: u16 = 7;

/// The oldest version that kernels of today speak (`IPSET_PROTOCOL_MIN`).
const PROTOCOL: u8 = 6;

const IPSET_ATTR_PROTOCOL: u16 = 1;
const IPSET_ATTR_SETNAME: u16 = 2;
const IPSET_ATTR_FLAGS: u16 = 6;
const IPSET_ATTR_ADT: u16 = 8;

/// Fields of a member.
const IPSET_ATTR_IP: u16 = 1;
const IPSET_ATTR_PORT: u16 = 4;
const IPSET_ATTR_PROTO: u16 = 7;
const IPSET_ATTR_IPADDR_IPV4: u16 = 1;
const IPSET_ATTR_IPADDR_IPV6: u16 = 2;

/// List names alone (`IPSET_FLAG_LIST_SETNAME`).
const LIST_NAMES: u32 = 1 << 1;

/// `IPSET_CMD_*` requests carry the family of nobody.
const NO_FAMILY: u8 = 0;

/// A member of a set, as far as its type has these fields; others are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The first address, of types that begin with `ip`.
    pub ip: Option<IpAddr>,
    /// The port, of types that have one.
    pub port: Option<u16>,
    /// `IPPROTO_*` of the port; `None` in `bitmap:port`, where it means any.
    pub protocol: Option<u8>,
}

impl Member {
    fn decode(attrs: &Attrs<'_>) -> Self {
        Self {
            ip: attrs
                .find(IPSET_ATTR_IP)
                .and_then(|it| address(&it.nested())),
            port: attrs.find(IPSET_ATTR_PORT).and_then(|it| it.u16_be()),
            protocol: attrs.find(IPSET_ATTR_PROTO).and_then(|it| it.u8()),
        }
    }
}

fn address(attrs: &Attrs<'_>) -> Option<IpAddr> {
    if let Some(attr) = attrs.find(IPSET_ATTR_IPADDR_IPV4) {
        return Some(Ipv4Addr::from(*attr.value.first_chunk::<4>()?).into());
    }
    let attr = attrs.find(IPSET_ATTR_IPADDR_IPV6)?;
    Some(Ipv6Addr::from(*attr.value.first_chunk::<16>()?).into())
}

/// The sets of one network namespace.
#[derive(Debug)]
pub struct Sets {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Sets {
    /// Connects to the sets of the calling thread's network namespace. The first question makes a
    /// kernel that has ipset as a module load it.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        Ok(Self {
            socket: Socket::open()?,
            buffer: Vec::new(),
        })
    }

    /// The names of all sets.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `EINVAL` when the kernel has no ipset.
    pub fn names(&mut self) -> Result<BTreeSet<String>, RequestError> {
        let mut names = BTreeSet::new();
        let request = Request {
            operation: "list",
            object: "ipsets",
            kind: kind(IPSET_CMD_LIST),
            family: NO_FAMILY,
            attrs: &|writer| {
                writer.u8(IPSET_ATTR_PROTOCOL, PROTOCOL);
                writer.u32_be(IPSET_ATTR_FLAGS, LIST_NAMES);
            },
        };
        request.dump(&mut self.socket, &mut self.buffer, &mut |message| {
            let name = message.attrs().find(IPSET_ATTR_SETNAME);
            names.extend(name.and_then(|it| it.str()).map(str::to_owned));
        })?;
        Ok(names)
    }

    /// The members of a set.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with `ENOENT` when there is no such set.
    pub fn members(&mut self, set: &str) -> Result<Vec<Member>, RequestError> {
        let mut members = Vec::new();
        let request = Request {
            operation: "list ipset",
            object: set,
            kind: kind(IPSET_CMD_LIST),
            family: NO_FAMILY,
            attrs: &|writer| named(writer, set),
        };
        request.dump(&mut self.socket, &mut self.buffer, &mut |message| {
            if let Some(list) = message.attrs().find(IPSET_ATTR_ADT) {
                members.extend(list.nested().map(|it| Member::decode(&it.nested())));
            }
        })?;
        Ok(members)
    }

    /// Destroys a set. One that is not there is success.
    ///
    /// # Errors
    /// Any [`RequestError`]; [`RequestError::Refused`] with a number that no C library knows
    /// (`IPSET_ERR_BUSY`) when a rule uses it.
    pub fn destroy(&mut self, set: &str) -> Result<(), RequestError> {
        let request = Request {
            operation: "destroy ipset",
            object: set,
            kind: kind(IPSET_CMD_DESTROY),
            family: NO_FAMILY,
            attrs: &|writer| named(writer, set),
        };
        match request.ask(&mut self.socket, &mut self.buffer, &mut |_| {}) {
            // Older kernels complain where newer ones want `NLM_F_EXCL` for that.
            Err(RequestError::Refused {
                errno: Errno::ENOENT,
                ..
            }) => Ok(()),
            result => result,
        }
    }
}

fn named(writer: &mut AttrWriter, set: &str) {
    writer.u8(IPSET_ATTR_PROTOCOL, PROTOCOL);
    writer.string(IPSET_ATTR_SETNAME, set);
}

fn kind(command: u16) -> u16 {
    (SUBSYSTEM << 8) | command
}

/// What a number above 4096 means: `enum ipset_errno` of the kernel, which no C library knows.
pub(crate) fn reason(code: i32) -> String {
    let words = match code {
        4097 => "another protocol version",
        4098 => "the kernel does not know sets of this type",
        4099 => "there are too many sets",
        4100 => "the set is in use",
        4101 => "there is a set of the new name",
        4102 => "the sets are of different types",
        4103 => "the member is there already, or is not there",
        4104 => "the prefix length is out of range",
        4105 => "the netmask is out of range",
        4106 => "the family does not fit the type",
        4107 => "the set has no timeouts",
        4108 => "the set is in use",
        4109 => "the address is not IPv4",
        4110 => "the address is not IPv6",
        4111 => "the set has no counters",
        4112 => "the set has no comments",
        4113 => "the mark's mask is out of range",
        4114 => "the set has no marks",
        4352 => "the set is full, or the member out of its range",
        4353 => "the member is null, or the range too large",
        4354 => "the set does not know the protocol",
        4355 => "the protocol is missing",
        code => return format!("ipset error {code}"),
    };
    words.to_owned()
}
