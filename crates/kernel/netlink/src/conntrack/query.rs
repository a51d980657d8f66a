//! Listing and removing tracked connections.

use std::net::IpAddr;

use nix::errno::Errno;

use crate::attr::AttrWriter;
use crate::nftables::Family;
use crate::request::{Request, RequestError};
use crate::socket::{Socket, SocketError};

use super::flow::{self, Flow};
use super::{SUBSYSTEM, family_of};

const IPCTNL_MSG_CT_GET: u16 = 1;
const IPCTNL_MSG_CT_DELETE: u16 = 2;

const CTA_FILTER: u16 = 25;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;

/// `CTA_FILTER_F_*` of `net/netfilter/nf_internals.h`: which parts of the tuple must be equal.
const MATCH_DESTINATION: u32 = 1 << 1;
const MATCH_PROTOCOL: u32 = 1 << 3;
const MATCH_DESTINATION_PORT: u32 = 1 << 5;

/// Which connections to list, by where the client dialled; `None` is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowFilter {
    /// Family of the addresses.
    pub family: Family,
    /// Original destination; one of the other family matches nothing.
    pub destination: Option<IpAddr>,
    /// `IPPROTO_*`.
    pub protocol: Option<u8>,
    /// Original destination port.
    pub destination_port: Option<u16>,
}

impl FlowFilter {
    /// Whether the filter lets this connection through.
    #[must_use]
    pub fn matches(&self, flow: &Flow) -> bool {
        let tuple = &flow.original;
        family_of(tuple.dst) == self.family
            && self.destination.is_none_or(|it| it == tuple.dst)
            && self.protocol.is_none_or(|it| it == tuple.protocol)
            && self.destination_port.is_none_or(|it| it == tuple.dst_port)
    }

    /// Asks the kernel to leave out what it can (5.8 and later; older ones ignore it).
    ///
    /// Not the IPv6 address: `ctnetlink_filter_match_tuple` compares it the wrong way round and
    /// lists all others. Not a port without protocol: refused.
    fn put(&self, writer: &mut AttrWriter) {
        let address = self.destination.filter(IpAddr::is_ipv4);
        let port = self.destination_port.filter(|_| self.protocol.is_some());
        let flag = |given: bool, bit: u32| if given { bit } else { 0 };
        let flags = flag(address.is_some(), MATCH_DESTINATION)
            | flag(self.protocol.is_some(), MATCH_PROTOCOL)
            | flag(port.is_some(), MATCH_DESTINATION_PORT);
        if flags != 0 {
            flow::put_destination(writer, address, self.protocol, port);
            writer.nested(CTA_FILTER, |it| it.u32_ne(CTA_FILTER_ORIG_FLAGS, flags));
        }
    }
}

/// The connection tracking table of one network namespace.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Conntrack {
    /// Connects to the table of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        Ok(Self {
            socket: Socket::open()?,
            buffer: Vec::new(),
        })
    }

    /// Lists the connections that match; the kernel leaves out what it can, the rest is done
    /// here. Connections come and go meanwhile, and the list is not of one moment.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn flows(&mut self, filter: &FlowFilter) -> Result<Vec<Flow>, RequestError> {
        let family = filter.family;
        if filter.destination.is_some_and(|it| family_of(it) != family) {
            return Ok(Vec::new());
        }
        let keep = |flow: &Flow| filter.matches(flow);
        match self.dump(family, &|writer| filter.put(writer), &keep) {
            // A kernel that knows filters but not this one.
            Err(RequestError::Refused {
                errno: Errno::EINVAL | Errno::EOPNOTSUPP,
                ..
            }) => self.dump(family, &|_| {}, &keep),
            result => result,
        }
    }

    /// Removes a connection, so that its next packet is balanced anew. One that is already gone,
    /// or was replaced by another with the same tuple, is success.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn delete(&mut self, flow: &Flow) -> Result<(), RequestError> {
        let object = format!("{} port {}", flow.original.dst, flow.original.dst_port);
        let request = Request {
            operation: "delete connection to",
            object: &object,
            kind: (SUBSYSTEM << 8) | IPCTNL_MSG_CT_DELETE,
            family: family_of(flow.original.dst).nfproto(),
            attrs: &|writer| {
                flow.original.put(writer);
                if let Some(id) = flow.id {
                    writer.u32_be(flow::CTA_ID, id);
                }
                if flow.zone != 0 {
                    writer.u16_be(flow::CTA_ZONE, flow.zone);
                }
            },
        };
        match request.ask(&mut self.socket, &mut self.buffer, &mut |_| {}) {
            Err(RequestError::Refused {
                errno: Errno::ENOENT,
                ..
            }) => Ok(()),
            result => result,
        }
    }

    /// Lists what the kernel shows for these attributes, as far as it is to be kept.
    fn dump(
        &mut self,
        family: Family,
        attrs: &dyn Fn(&mut AttrWriter),
        keep: &dyn Fn(&Flow) -> bool,
    ) -> Result<Vec<Flow>, RequestError> {
        let mut flows = Vec::new();
        let request = Request {
            operation: "list",
            object: "connections",
            kind: (SUBSYSTEM << 8) | IPCTNL_MSG_CT_GET,
            family: family.nfproto(),
            attrs,
        };
        request.dump(&mut self.socket, &mut self.buffer, &mut |message| {
            flows.extend(Flow::decode(&message.attrs()).filter(keep));
        })?;
        Ok(flows)
    }
}

#[cfg(test)]
mod tests;
