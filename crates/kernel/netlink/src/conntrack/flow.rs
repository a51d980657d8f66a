//! One tracked connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::attr::{AttrWriter, Attrs};

pub(super) const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
pub(super) const CTA_ID: u16 = 12;
pub(super) const CTA_ZONE: u16 = 18;

const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;

const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;

const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_PROTO_ICMP_ID: u16 = 4;
const CTA_PROTO_ICMPV6_ID: u16 = 7;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// One direction of a connection: what a packet of it carries.
///
/// For ICMP `src_port` is the identifier and `dst_port` is `type << 8 | code`, as in the kernel's
/// own union; for protocols without ports both are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it all")]
pub struct Tuple {
    pub src: IpAddr,
    pub dst: IpAddr,
    /// `IPPROTO_*`.
    pub protocol: u8,
    pub src_port: u16,
    pub dst_port: u16,
}

/// A tracked connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// As the client sent it, before translation.
    pub original: Tuple,
    /// As the answer comes back; `reply.src` is the endpoint that was chosen.
    pub reply: Tuple,
    /// Tells this connection from a later one with the same tuples.
    pub id: Option<u32>,
    /// Conntrack zone; 0 unless a rule says otherwise.
    pub zone: u16,
}

impl Flow {
    /// Reads the attributes of `IPCTNL_MSG_CT_NEW`; `None` without both tuples.
    #[must_use]
    pub fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        Some(Self {
            original: Tuple::decode(&attrs.find(CTA_TUPLE_ORIG)?.nested())?,
            reply: Tuple::decode(&attrs.find(CTA_TUPLE_REPLY)?.nested())?,
            id: attrs.find(CTA_ID).and_then(|it| it.u32_be()),
            zone: attrs
                .find(CTA_ZONE)
                .and_then(|it| it.u16_be())
                .unwrap_or_default(),
        })
    }
}

impl Tuple {
    fn decode(attrs: &Attrs<'_>) -> Option<Self> {
        let ip = attrs.find(CTA_TUPLE_IP)?.nested();
        let proto = attrs.find(CTA_TUPLE_PROTO)?.nested();
        let protocol = proto.find(CTA_PROTO_NUM)?.u8()?;
        let (src_port, dst_port) = ports(&proto, protocol);
        Some(Self {
            src: address(&ip, CTA_IP_V4_SRC, CTA_IP_V6_SRC)?,
            dst: address(&ip, CTA_IP_V4_DST, CTA_IP_V6_DST)?,
            protocol,
            src_port,
            dst_port,
        })
    }

    /// Writes the whole tuple, as the kernel wants it to find an entry.
    pub(super) fn put(&self, writer: &mut AttrWriter) {
        put(
            writer,
            Some(self.src),
            Some(self.dst),
            Some(self.protocol),
            |proto| {
                let [kind, code] = self.dst_port.to_be_bytes();
                let icmp = match self.protocol {
                    ICMP => CTA_PROTO_ICMP_ID,
                    ICMPV6 => CTA_PROTO_ICMPV6_ID,
                    _ => {
                        proto.u16_be(CTA_PROTO_SRC_PORT, self.src_port);
                        proto.u16_be(CTA_PROTO_DST_PORT, self.dst_port);
                        return;
                    }
                };
                proto.u16_be(icmp, self.src_port);
                proto.u8(icmp + 1, kind);
                proto.u8(icmp + 2, code);
            },
        );
    }
}

/// Writes the destination of a tuple, as far as it is given, for a filter.
pub(super) fn put_destination(
    writer: &mut AttrWriter,
    address: Option<IpAddr>,
    protocol: Option<u8>,
    port: Option<u16>,
) {
    put(writer, None, address, protocol, |proto| {
        if let Some(port) = port {
            proto.u16_be(CTA_PROTO_DST_PORT, port);
        }
    });
}

fn put(
    writer: &mut AttrWriter,
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    protocol: Option<u8>,
    ports: impl FnOnce(&mut AttrWriter),
) {
    writer.nested(CTA_TUPLE_ORIG, |tuple| {
        if src.is_some() || dst.is_some() {
            tuple.nested(CTA_TUPLE_IP, |ip| {
                src.iter()
                    .for_each(|it| put_address(ip, CTA_IP_V4_SRC, CTA_IP_V6_SRC, *it));
                dst.iter()
                    .for_each(|it| put_address(ip, CTA_IP_V4_DST, CTA_IP_V6_DST, *it));
            });
        }
        if let Some(protocol) = protocol {
            tuple.nested(CTA_TUPLE_PROTO, |proto| {
                proto.u8(CTA_PROTO_NUM, protocol);
                ports(proto);
            });
        }
    });
}

fn put_address(writer: &mut AttrWriter, v4: u16, v6: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => writer.bytes(v4, &address.octets()),
        IpAddr::V6(address) => writer.bytes(v6, &address.octets()),
    }
}

fn address(attrs: &Attrs<'_>, v4: u16, v6: u16) -> Option<IpAddr> {
    if let Some(attr) = attrs.find(v4) {
        return Some(Ipv4Addr::from(*attr.value.first_chunk::<4>()?).into());
    }
    Some(Ipv6Addr::from(*attrs.find(v6)?.value.first_chunk::<16>()?).into())
}

fn ports(proto: &Attrs<'_>, protocol: u8) -> (u16, u16) {
    let word = |kind| {
        proto
            .find(kind)
            .and_then(|it| it.u16_be())
            .unwrap_or_default()
    };
    let byte = |kind| proto.find(kind).and_then(|it| it.u8()).unwrap_or_default();
    let icmp = match protocol {
        ICMP => CTA_PROTO_ICMP_ID,
        ICMPV6 => CTA_PROTO_ICMPV6_ID,
        _ => return (word(CTA_PROTO_SRC_PORT), word(CTA_PROTO_DST_PORT)),
    };
    (
        word(icmp),
        u16::from_be_bytes([byte(icmp + 1), byte(icmp + 2)]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tuples_read_back() {
        for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            for protocol in [6, 17, 132, ICMP, ICMPV6] {
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
                let attrs = Attrs::new(writer.as_bytes())
                    .find(CTA_TUPLE_ORIG)
                    .unwrap()
                    .nested();
                assert_eq!(Tuple::decode(&attrs), Some(tuple));
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
            let _ = Flow::decode(&Attrs::new(&bytes));
        }
    }
}
