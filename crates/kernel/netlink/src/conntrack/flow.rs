//! One tracked connection.

use std::net::IpAddr;

use crate::attr::{AttrWriter, Attrs};
use crate::family::Family;

pub(super) const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
pub(super) const CTA_ID: u16 = 12;
pub(super) const CTA_ZONE: u16 = 18;

const CTA_STATUS: u16 = 3;
const CTA_PROTOINFO: u16 = 4;
const CTA_TIMEOUT: u16 = 7;
const CTA_COUNTERS_ORIG: u16 = 9;
const CTA_COUNTERS_REPLY: u16 = 10;

/// Bit of `CTA_STATUS` (`enum ip_conntrack_status`).
const IPS_SEEN_REPLY: u32 = 1 << 1;

const CTA_PROTOINFO_TCP: u16 = 1;
const CTA_PROTOINFO_SCTP: u16 = 3;
const CTA_PROTOINFO_STATE: u16 = 1;

const CTA_COUNTERS_PACKETS: u16 = 1;
const CTA_COUNTERS_BYTES: u16 = 2;

/// `enum tcp_conntrack` (`nf_conntrack_tcp.h`), named as in `/proc/net/nf_conntrack`.
const TCP_STATES: [&str; 10] = [
    "NONE",
    "SYN_SENT",
    "SYN_RECV",
    "ESTABLISHED",
    "FIN_WAIT",
    "CLOSE_WAIT",
    "LAST_ACK",
    "TIME_WAIT",
    "CLOSE",
    "SYN_SENT2",
];

/// `enum sctp_conntrack` (`nf_conntrack_sctp.h`).
const SCTP_STATES: [&str; 9] = [
    "NONE",
    "CLOSED",
    "COOKIE_WAIT",
    "COOKIE_ECHOED",
    "ESTABLISHED",
    "SHUTDOWN_SENT",
    "SHUTDOWN_RECD",
    "SHUTDOWN_ACK_SENT",
    "HEARTBEAT_SENT",
];

const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;

/// Of an IPv4 address; those of an IPv6 address are two more.
const CTA_IP_SRC: u16 = 1;
const CTA_IP_DST: u16 = 2;

const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;

/// The header fields of the packets of one direction of a connection. The ports are 0 for protocols
/// without ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as the header fields")]
pub struct Tuple {
    pub src: IpAddr,
    pub dst: IpAddr,
    /// `IPPROTO_*`.
    pub protocol: u8,
    pub src_port: u16,
    pub dst_port: u16,
}

/// A tracked connection with its state and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// The connection.
    pub flow: Flow,
    /// `ESTABLISHED` and so on; `None` for protocols without states, such as UDP.
    pub state: Option<&'static str>,
    /// The endpoint has answered.
    pub answered: bool,
    /// Seconds until the kernel forgets the connection, unless another packet comes.
    pub seconds: Option<u32>,
    /// Packets of the client and of the endpoint; `None` without the sysctl `nf_conntrack_acct`.
    pub packets: Option<[u64; 2]>,
    /// Bytes of the client and of the endpoint; `None` without the sysctl.
    pub bytes: Option<[u64; 2]>,
}

impl FlowState {
    /// Reads the attributes of `IPCTNL_MSG_CT_NEW`; `None` without both tuples.
    pub(super) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let protocols = attrs.nested(CTA_PROTOINFO);
        let states = [
            (CTA_PROTOINFO_TCP, &TCP_STATES[..]),
            (CTA_PROTOINFO_SCTP, &SCTP_STATES),
        ];
        let named = states.iter().find_map(|(protocol, names)| {
            let number = protocols.nested(*protocol).u8(CTA_PROTOINFO_STATE)?;
            names.get(usize::from(number)).copied()
        });
        let both = |kind| {
            let counted = |side| attrs.nested(side).u64_be(kind);
            Some([counted(CTA_COUNTERS_ORIG)?, counted(CTA_COUNTERS_REPLY)?])
        };
        Some(Self {
            flow: Flow::decode(attrs)?,
            state: named,
            answered: attrs.u32_be(CTA_STATUS).unwrap_or_default() & IPS_SEEN_REPLY != 0,
            seconds: attrs.u32_be(CTA_TIMEOUT),
            packets: both(CTA_COUNTERS_PACKETS),
            bytes: both(CTA_COUNTERS_BYTES),
        })
    }
}

/// A tracked connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The packets of the client, before translation.
    pub original: Tuple,
    /// The answers, before translation; `reply.src` is the chosen endpoint.
    pub reply: Tuple,
    /// Tells this connection from a later one with the same tuples.
    pub id: Option<u32>,
    /// Conntrack zone; 0 unless a rule sets another.
    pub zone: u16,
}

impl Flow {
    /// Reads the attributes of `IPCTNL_MSG_CT_NEW`; `None` without both tuples.
    pub(super) fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        Some(Self {
            original: Tuple::decode(&attrs.nested(CTA_TUPLE_ORIG))?,
            reply: Tuple::decode(&attrs.nested(CTA_TUPLE_REPLY))?,
            id: attrs.u32_be(CTA_ID),
            zone: attrs.u16_be(CTA_ZONE).unwrap_or_default(),
        })
    }
}

impl Tuple {
    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let ip = attrs.nested(CTA_TUPLE_IP);
        let proto = attrs.nested(CTA_TUPLE_PROTO);
        Some(Self {
            src: address(&ip, CTA_IP_SRC)?,
            dst: address(&ip, CTA_IP_DST)?,
            protocol: proto.u8(CTA_PROTO_NUM)?,
            src_port: proto.u16_be(CTA_PROTO_SRC_PORT).unwrap_or_default(),
            dst_port: proto.u16_be(CTA_PROTO_DST_PORT).unwrap_or_default(),
        })
    }

    /// Writes the tuple as `CTA_TUPLE_ORIG`.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        Partial {
            src: Some(self.src),
            dst: Some(self.dst),
            protocol: Some(self.protocol),
            src_port: Some(self.src_port),
            dst_port: Some(self.dst_port),
        }
        .put(writer);
    }
}

/// The parts of a tuple that a request names.
#[derive(Default)]
pub(super) struct Partial {
    pub(super) src: Option<IpAddr>,
    pub(super) dst: Option<IpAddr>,
    pub(super) protocol: Option<u8>,
    pub(super) src_port: Option<u16>,
    pub(super) dst_port: Option<u16>,
}

impl Partial {
    /// Writes `CTA_TUPLE_ORIG`. The kernel refuses an empty `CTA_TUPLE_IP` or `CTA_TUPLE_PROTO`.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        writer.nested(CTA_TUPLE_ORIG, |tuple| {
            if self.src.is_some() || self.dst.is_some() {
                tuple.nested(CTA_TUPLE_IP, |ip| {
                    put_address(ip, CTA_IP_SRC, self.src);
                    put_address(ip, CTA_IP_DST, self.dst);
                });
            }
            let Some(protocol) = self.protocol else {
                return;
            };
            tuple.nested(CTA_TUPLE_PROTO, |proto| {
                proto.u8(CTA_PROTO_NUM, protocol);
                proto.u16_be(CTA_PROTO_SRC_PORT, self.src_port);
                proto.u16_be(CTA_PROTO_DST_PORT, self.dst_port);
            });
        });
    }
}

fn put_address(writer: &mut AttrWriter, kind: u16, address: Option<IpAddr>) {
    if let Some(ip) = address {
        let kind = if ip.is_ipv4() { kind } else { kind + 2 };
        writer.address(kind, ip);
    }
}

fn address(attrs: &Attrs<'_>, kind: u16) -> Option<IpAddr> {
    match attrs.find(kind) {
        Some(attr) => Family::Ipv4.address(attr.value),
        None => Family::Ipv6.address(attrs.find(kind + 2)?.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tuples_read_back() {
        for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            for protocol in [6, 17, 132] {
                let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
                let tuple = Tuple {
                    src,
                    dst,
                    protocol,
                    src_port: 40_000,
                    dst_port: 0x0800,
                };
                let mut writer = AttrWriter::new();
                tuple.put(&mut writer);
                let attrs = Attrs::new(writer.as_bytes());
                let read = Tuple::decode(&attrs.nested(CTA_TUPLE_ORIG));
                assert_eq!(read, Some(tuple));
            }
        }
    }

    fn attrs(depth: u32) -> BoxedStrategy<Vec<u8>> {
        let leaf = prop::collection::vec(any::<u8>(), 0..20);
        if depth == 0 {
            return leaf.boxed();
        }
        let row = prop::collection::vec((0_u16..5, attrs(depth - 1)), 0..5).prop_map(|row| {
            let mut writer = AttrWriter::new();
            row.iter()
                .for_each(|(kind, value)| writer.bytes(*kind, value));
            writer.as_bytes().to_vec()
        });
        prop_oneof![1 => leaf, 4 => row].boxed()
    }

    proptest! {
        #[test]
        fn never_panics_on_random_attributes(bytes in attrs(3)) {
            let _ = FlowState::decode(&Attrs::new(&bytes));
        }
    }
}
