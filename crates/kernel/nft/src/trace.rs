//! The rules that packets match, as the kernel reports them (`nf_tables_trace.c`).

use std::fmt;
use std::time::Instant;

use nix::sys::socket::SockProtocol;

use sluice_netlink::Notices;
use sluice_netlink::attr::Attrs;
use sluice_netlink::conntrack::Tuple;
use sluice_netlink::message::Message;
use sluice_netlink::socket::{Socket, SocketError};

use super::any::TableFamily;
use super::observe::kind;
use super::scope::Family;
use super::uapi;
use super::value::{Verdict, verdict};

/// Most kernel memory for unread reports in bytes: some thousand packets.
const QUEUE: usize = 4 << 20;

/// The verdict of a rule, or of the end of a chain, on a packet. Displays as `nft monitor trace` does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The next rule sees the packet.
    Continue,
    /// A program decides about the packet.
    Queue,
    /// The rule took the packet out of the kernel's path, for example to another interface.
    Stolen,
    /// Any other verdict. A packet is also dropped by a rule that rejects.
    Verdict(Verdict),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Continue => f.write_str("continue"),
            Self::Queue => f.write_str("queue"),
            Self::Stolen => f.write_str("stolen"),
            Self::Verdict(it) => it.fmt(f),
        }
    }
}

impl Fate {
    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let code = attrs.u32_be(uapi::NFTA_VERDICT_CODE)?.cast_signed();
        // The upper bits are the number of a queue, or of an error.
        let of_netfilter = code & uapi::NF_VERDICT_MASK;
        Some(match if code < 0 { code } else { of_netfilter } {
            uapi::NFT_CONTINUE => Self::Continue,
            uapi::NF_STOLEN => Self::Stolen,
            uapi::NF_QUEUE => Self::Queue,
            code => Self::Verdict(verdict(code, attrs)?.to_owned()),
        })
    }
}

/// One report: a rule that a packet matched, or the end of a chain that it reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kernel's number of the packet. It has another one when it comes back through loopback.
    pub packet: u32,
    pub family: TableFamily,
    /// Name of the table.
    pub table: String,
    /// Name of the chain.
    pub chain: String,
    /// Number of the rule; `None` at the end of a chain, which is the policy of a base chain.
    pub handle: Option<u64>,
    /// The verdict on the packet.
    pub fate: Fate,
    /// The mark of the packet.
    pub mark: u32,
    /// Addresses and ports, in the first report of each base chain.
    pub header: Option<Tuple>,
    /// Index of the interface that the packet came in through, in the first report of each base chain.
    pub incoming: Option<u32>,
    /// Index of the interface that the packet leaves through, as `incoming`.
    pub outgoing: Option<u32>,
}

impl Step {
    fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != kind(uapi::NFT_MSG_TRACE) {
            return None;
        }
        let attrs = message.attrs();
        let fate = match attrs.u32_be(uapi::NFTA_TRACE_TYPE)? {
            uapi::NFT_TRACETYPE_POLICY => match attrs.u32_be(uapi::NFTA_TRACE_POLICY)? {
                0 => Fate::Verdict(Verdict::Drop),
                _ => Fate::Verdict(Verdict::Accept),
            },
            uapi::NFT_TRACETYPE_RETURN | uapi::NFT_TRACETYPE_RULE => {
                Fate::decode(&attrs.nested(uapi::NFTA_TRACE_VERDICT))?
            }
            _ => return None,
        };
        Some(Self {
            packet: attrs.u32_be(uapi::NFTA_TRACE_ID)?,
            // The attribute NFTA_TRACE_NFPROTO is the family of the packet.
            family: TableFamily::from_number(message.family().into())?,
            table: attrs.string(uapi::NFTA_TRACE_TABLE)?,
            chain: attrs.string(uapi::NFTA_TRACE_CHAIN)?,
            handle: attrs.u64_be(uapi::NFTA_TRACE_RULE_HANDLE),
            fate,
            mark: attrs.u32_be(uapi::NFTA_TRACE_MARK).unwrap_or_default(),
            header: header(&attrs),
            incoming: attrs.u32_be(uapi::NFTA_TRACE_IIF),
            outgoing: attrs.u32_be(uapi::NFTA_TRACE_OIF),
        })
    }
}

/// The addresses of an IP header and the ports behind it. Of an IPv6 packet with extension headers the
/// protocol is that of the first one.
fn header(attrs: &Attrs<'_>) -> Option<Tuple> {
    let ip = attrs.find(uapi::NFTA_TRACE_NETWORK_HEADER)?.value;
    let (family, protocol, src, dst) = match ip.first()? >> 4 {
        4 => (Family::Ipv4, 9, 12, 16),
        6 => (Family::Ipv6, 6, 8, 24),
        _ => return None,
    };
    let ports = attrs.find(uapi::NFTA_TRACE_TRANSPORT_HEADER);
    let port = |offset: usize| {
        let bytes = ports.and_then(|it| it.value.get(offset..)?.first_chunk().copied());
        bytes.map_or(0, u16::from_be_bytes)
    };
    Some(Tuple {
        src: family.address(ip.get(src..)?)?,
        dst: family.address(ip.get(dst..)?)?,
        protocol: *ip.get(protocol)?,
        src_port: port(0),
        dst_port: port(2),
    })
}

/// Receives the reports about every packet of one network namespace for which a rule has set
/// [`MetaKey::Trace`](super::MetaKey::Trace).
#[derive(Debug)]
pub struct Tracer(Notices<Step>);

impl Tracer {
    /// Listens in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        let group = 1 << (uapi::NFNLGRP_NFTRACE - 1);
        let socket = Socket::bound(SockProtocol::NetlinkNetFilter, 0, group, &mut [])?;
        Ok(Self(Notices::new(socket, QUEUE, Step::decode)))
    }

    /// Waits for the next report; `None` at the deadline.
    ///
    /// # Errors
    /// Any [`SocketError`]; after [`SocketError::Overrun`] some reports are lost, and later ones still come.
    pub fn wait(&mut self, deadline: Instant) -> Result<Option<Step>, SocketError> {
        self.0.wait(Some(deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::any::NumberedRule;
    use proptest::prelude::*;
    use sluice_netlink::attr::AttrWriter;

    proptest! {
        #[test]
        fn never_panics_on_random_reports(
            row in prop::collection::vec((0_u16..18, prop::collection::vec(any::<u8>(), 0..48)), 0..20),
        ) {
            let mut writer = AttrWriter::new();
            writer.raw(&[0; 4]);
            for (kind, value) in &row {
                writer.bytes(*kind, value);
            }
            let kind = kind(uapi::NFT_MSG_TRACE);
            let message = Message { kind, flags: 0, sequence: 0, port: 0, body: writer.as_bytes() };
            let _ = Step::decode(&message);
            let _ = NumberedRule::decode(&message.attrs());
        }
    }
}
