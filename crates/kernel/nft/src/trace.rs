//! The rules that packets match, as the kernel reports them (`nf_tables_trace.c`), and the rules of a chain by
//! number.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use nix::sys::socket::SockProtocol;

use sluice_netlink::attr::Attrs;
use sluice_netlink::conntrack::Tuple;
use sluice_netlink::message::{Message, Messages};
use sluice_netlink::request::RequestError;
use sluice_netlink::socket::{Socket, SocketError};

use super::connection::Connection;
use super::monitor::poll_timeout;
use super::object::put_table_name;
use super::observe::{get, kind};
use super::scope::Family;
use super::uapi;
use super::userdata;

/// Most kernel memory for unread reports in bytes: some thousand packets.
const QUEUE: usize = 4 << 20;

/// Bytes of the comment of iptables' match `comment` (`struct xt_comment_info`).
const XT_COMMENT: usize = 256;

/// The family of a table (`NFPROTO_*`). Displays as `nft` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as the families")]
pub enum TableFamily {
    Inet = 1,
    Ip = 2,
    Arp = 3,
    Netdev = 5,
    Bridge = 7,
    Ip6 = 10,
}

impl TableFamily {
    fn from_number(number: u32) -> Option<Self> {
        use TableFamily::{Arp, Bridge, Inet, Ip, Ip6, Netdev};
        let all = [Inet, Ip, Arp, Netdev, Bridge, Ip6];
        all.into_iter().find(|it| *it as u32 == number)
    }

    /// The word of `nft`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Ip => "ip",
            Self::Arp => "arp",
            Self::Netdev => "netdev",
            Self::Bridge => "bridge",
            Self::Ip6 => "ip6",
        }
    }
}

impl fmt::Display for TableFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The verdict of a rule, or of the end of a chain, on a packet. Displays as `nft monitor trace` does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The next rule sees the packet.
    Continue,
    /// The packet leaves the base chain; later chains of the hook still see it.
    Accept,
    /// The packet is dropped, with an answer when the rule rejects.
    Drop,
    /// A program decides about the packet.
    Queue,
    /// The rule took the packet out of the kernel's path, for example to another interface.
    Stolen,
    /// The packet returns to the chain that jumped here.
    Return,
    /// The packet continues in the chain of this name, and returns after it.
    Jump(String),
    /// The packet continues in the chain of this name.
    Goto(String),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Continue => "continue",
            Self::Accept => "accept",
            Self::Drop => "drop",
            Self::Queue => "queue",
            Self::Stolen => "stolen",
            Self::Return => "return",
            Self::Jump(chain) => return write!(f, "jump {chain}"),
            Self::Goto(chain) => return write!(f, "goto {chain}"),
        })
    }
}

impl Fate {
    fn decode(verdict: &Attrs<'_>) -> Option<Self> {
        let chain = || verdict.string(uapi::NFTA_VERDICT_CHAIN);
        Some(
            match verdict.u32_be(uapi::NFTA_VERDICT_CODE)?.cast_signed() {
                uapi::NFT_CONTINUE => Self::Continue,
                uapi::NFT_JUMP => Self::Jump(chain()?),
                uapi::NFT_GOTO => Self::Goto(chain()?),
                uapi::NFT_RETURN => Self::Return,
                code if code < 0 => return None,
                code => match code & uapi::NF_VERDICT_MASK {
                    uapi::NF_DROP => Self::Drop,
                    uapi::NF_ACCEPT => Self::Accept,
                    uapi::NF_STOLEN => Self::Stolen,
                    uapi::NF_QUEUE => Self::Queue,
                    _ => return None,
                },
            },
        )
    }
}

/// One report: a rule that a packet matched, or the end of a chain that it reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The kernel's number of the packet. It has another one when it comes back through loopback.
    pub packet: u32,
    /// Family of the table.
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
                0 => Fate::Drop,
                _ => Fate::Accept,
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
pub struct Tracer {
    socket: Socket,
    pending: VecDeque<Step>,
}

impl Tracer {
    /// Listens in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`SocketError::Io`].
    pub fn open() -> Result<Self, SocketError> {
        let group = 1 << (uapi::NFNLGRP_NFTRACE - 1);
        let socket = Socket::bound(SockProtocol::NetlinkNetFilter, 0, group, &mut [])?;
        socket.grow_receive_buffer(QUEUE);
        Ok(Self {
            socket,
            pending: VecDeque::new(),
        })
    }

    /// Waits for the next report; `None` at the deadline.
    ///
    /// # Errors
    /// Any [`SocketError`]; after [`SocketError::Overrun`] some reports are lost, and later ones still come.
    pub fn wait(&mut self, deadline: Instant) -> Result<Option<Step>, SocketError> {
        loop {
            if let Some(step) = self.pending.pop_front() {
                return Ok(Some(step));
            }
            if let Some(datagram) = self.socket.try_receive()? {
                let steps = Messages::new(datagram).filter_map(|it| Step::decode(&it));
                self.pending.extend(steps);
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.wait(None, poll_timeout(Some(left)))?;
        }
    }
}

/// A rule by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedRule {
    /// The kernel's number of the rule.
    pub handle: u64,
    /// The comment of nftables, else of iptables' match `comment`.
    pub comment: Option<String>,
}

impl Connection {
    /// The rules of a chain in their order; none when there is no such chain.
    ///
    /// # Errors
    /// Any [`RequestError`].
    pub fn numbered_rules(
        &mut self,
        family: TableFamily,
        table: &str,
        chain: &str,
    ) -> Result<Vec<NumberedRule>, RequestError> {
        let message = uapi::NFT_MSG_GETRULE;
        let request = get("list rules of", chain, message, family as u8, |writer| {
            put_table_name(writer, table);
            writer.string(uapi::NFTA_RULE_CHAIN, chain);
        });
        self.list(&request, NumberedRule::decode)
    }
}

impl NumberedRule {
    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let comment = attrs
            .find(uapi::NFTA_RULE_USERDATA)
            .and_then(|it| userdata::comment(it.value, userdata::COMMENT));
        let matches = attrs.nested(uapi::NFTA_RULE_EXPRESSIONS);
        let of_match = || matches.into_iter().find_map(|it| xt_comment(&it.nested()));
        Some(Self {
            handle: attrs.u64_be(uapi::NFTA_RULE_HANDLE)?,
            comment: comment.map(str::to_owned).or_else(of_match),
        })
    }
}

/// The text of an expression `match` with iptables' extension `comment`.
fn xt_comment(expression: &Attrs<'_>) -> Option<String> {
    let operands = expression.nested(uapi::NFTA_EXPR_DATA);
    if expression.str(uapi::NFTA_EXPR_NAME)? != "match"
        || operands.str(uapi::NFTA_MATCH_NAME)? != "comment"
    {
        return None;
    }
    let text = operands.find(uapi::NFTA_MATCH_INFO)?.value;
    let text = text.get(..XT_COMMENT).unwrap_or(text);
    let end = text.iter().position(|it| *it == 0).unwrap_or(text.len());
    std::str::from_utf8(&text[..end]).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
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
