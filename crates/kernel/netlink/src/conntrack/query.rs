//! Lists and deletes tracked connections.

use std::net::IpAddr;

use nix::errno::Errno;

use crate::attr::{AttrWriter, Attrs};
use crate::family::Family;
use crate::request::{Request, RequestError, unless};
use crate::socket::{Socket, SocketError};

use super::flow::{self, Flow, FlowState, Partial};

/// `NFNL_SUBSYS_CTNETLINK`.
const SUBSYSTEM: u16 = 1 << 8;
const IPCTNL_MSG_CT_GET: u16 = 1;
const IPCTNL_MSG_CT_DELETE: u16 = 2;

const CTA_FILTER: u16 = 25;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;

/// `CTA_FILTER_F_*` of `net/netfilter/nf_internals.h`: the parts of the tuple that must be equal.
const MATCH_DESTINATION: u32 = 1 << 1;
const MATCH_PROTOCOL: u32 = 1 << 3;
const MATCH_DESTINATION_PORT: u32 = 1 << 5;

/// Selects connections by the destination that the client dialled; `None` matches all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowFilter {
    /// Family of the addresses.
    pub family: Family,
    /// Original destination; an address of the other family matches nothing.
    pub destination: Option<IpAddr>,
    /// `IPPROTO_*`.
    pub protocol: Option<u8>,
    /// Original destination port.
    pub destination_port: Option<u16>,
}

impl FlowFilter {
    /// Whether the filter selects this connection.
    #[must_use]
    pub fn matches(&self, flow: &Flow) -> bool {
        let tuple = &flow.original;
        Family::of(tuple.dst) == self.family
            && self.destination.is_none_or(|it| it == tuple.dst)
            && self.protocol.is_none_or(|it| it == tuple.protocol)
            && self.destination_port.is_none_or(|it| it == tuple.dst_port)
    }

    /// Lets the kernel filter what it can (since 5.8; older kernels ignore the attribute).
    ///
    /// Not by IPv6 address: `ctnetlink_filter_match_tuple` compares it the wrong way round and lists
    /// all others. Not by port without protocol: the kernel refuses that.
    fn put(&self, writer: &mut AttrWriter) {
        let partial = Partial {
            dst: self.destination.filter(IpAddr::is_ipv4),
            protocol: self.protocol,
            dst_port: self.destination_port.filter(|_| self.protocol.is_some()),
            ..Partial::default()
        };
        let flags = [
            (partial.dst.is_some(), MATCH_DESTINATION),
            (partial.protocol.is_some(), MATCH_PROTOCOL),
            (partial.dst_port.is_some(), MATCH_DESTINATION_PORT),
        ];
        let flags = flags.iter().filter(|(given, _)| *given);
        let flags = flags.fold(0, |all, (_, flag)| all | flag);
        if flags != 0 {
            partial.put(writer);
            writer.nested(CTA_FILTER, |it| it.u32_ne(CTA_FILTER_ORIG_FLAGS, flags));
        }
    }
}

/// The connection tracking table of one network namespace.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
}

impl Conntrack {
    /// Connects to the table of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        Ok(Self {
            socket: Socket::netfilter()?,
        })
    }

    /// Lists the connections that match. Connections that start or end during the listing may be in
    /// it or not.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn flows(&mut self, filter: &FlowFilter) -> Result<Vec<Flow>, RequestError> {
        let mut flows = self.list(filter, Flow::decode)?;
        flows.retain(|it| filter.matches(it));
        Ok(flows)
    }

    /// Shows each connection of a family while the kernel lists them: the table may have millions. Connections that start or end
    /// meanwhile may be shown or not.
    ///
    /// # Errors
    /// Any [`RequestError`]; some were shown.
    pub fn for_each_flow(
        &mut self,
        family: Family,
        mut visit: impl FnMut(Flow),
    ) -> Result<(), RequestError> {
        let filter = FlowFilter {
            family,
            destination: None,
            protocol: None,
            destination_port: None,
        };
        let request = request(&filter);
        request.dump(&mut self.socket, &mut |message| {
            let flow = Flow::decode(&message.attrs());
            flow.into_iter()
                .filter(|it| filter.matches(it))
                .for_each(&mut visit);
        })
    }

    /// As [`flows`](Self::flows), with their states and counters.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn states(&mut self, filter: &FlowFilter) -> Result<Vec<FlowState>, RequestError> {
        let mut states = self.list(filter, FlowState::decode)?;
        states.retain(|it| filter.matches(&it.flow));
        Ok(states)
    }

    /// Deletes a connection, so that its next packet is balanced again. A connection that is gone,
    /// or was replaced by another one with the same tuple, is no error.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn delete(&mut self, flow: &Flow) -> Result<(), RequestError> {
        let object = format!("{} port {}", flow.original.dst, flow.original.dst_port);
        let request = Request::new(
            "delete connection to",
            &object,
            SUBSYSTEM | IPCTNL_MSG_CT_DELETE,
            |writer| {
                flow.original.put(writer);
                writer.u32_be(flow::CTA_ID, flow.id);
                if flow.zone != 0 {
                    writer.u16_be(flow::CTA_ZONE, flow.zone);
                }
            },
        )
        .family(Family::of(flow.original.dst).number());
        let result = request.ask(&mut self.socket, &mut |_| {});
        unless(Errno::ENOENT, result).map(drop)
    }

    /// The connections that the kernel lists for the filter, as `decode` reads them.
    fn list<T>(
        &mut self,
        filter: &FlowFilter,
        decode: impl Fn(&Attrs<'_>) -> Option<T>,
    ) -> Result<Vec<T>, RequestError> {
        request(filter).list(&mut self.socket, |message| decode(&message.attrs()))
    }
}

/// The request for a list of the connections that match.
fn request(filter: &FlowFilter) -> Request<'static> {
    Request::new(
        "list",
        "connections",
        SUBSYSTEM | IPCTNL_MSG_CT_GET,
        |writer| filter.put(writer),
    )
    .family(filter.family.number())
}

#[cfg(test)]
mod tests;
