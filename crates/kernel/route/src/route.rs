//! Entries of the routing tables.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use nix::errno::Errno;
use sluice_netlink::attr::{Attr, AttrWriter, Attrs, align};
use sluice_netlink::message::Message;
use sluice_netlink::{Family, octets};

use crate::connection::{Listed, Messages, Object};
use crate::scope::Scope;

/// `rtmsg { u8 family, u8 to, u8 from, u8 tos, u8 table, u8 protocol, u8 scope, u8 type, u32 flags }`.
pub(crate) const HEADER: usize = 12;
const TO_OFFSET: usize = 1;
const TABLE_OFFSET: usize = 4;
const PROTOCOL_OFFSET: usize = 5;
const SCOPE_OFFSET: usize = 6;
const KIND_OFFSET: usize = 7;
const FLAGS_OFFSET: usize = 8;

pub(crate) const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
/// `rtvia { u16 family, u8 address[] }`: a gateway of the other family.
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTAX_MTU: u16 = 2;
const RTAX_ADVMSS: u16 = 8;
/// The gateway is on the link, whatever the routes say.
const RTNH_F_ONLINK: u32 = 4;
/// `rtnexthop { u16 length, u8 flags, u8 weight - 1, u32 interface }`, then attributes.
const HOP_HEADER: usize = 8;
/// `linux/lwtunnel.h`.
const ENCAP_IP: u16 = 2;
const ENCAP_IP6: u16 = 4;
const ENCAP_ID: u16 = 1;
const ENCAP_DST: u16 = 2;

/// `RTN_*`: the kernel's decision about packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteKind(pub u8);

impl RouteKind {
    /// Packets go to a next hop.
    pub const UNICAST: Self = Self(1);
    /// Packets are for this machine.
    pub const LOCAL: Self = Self(2);
}

/// The table that all packets use last (`RT_TABLE_MAIN`).
pub const MAIN_TABLE: u32 = 254;

/// An entry of a routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network of the destinations; of length 0 it is the default route.
    pub to: IpNet,
    /// The kernel's decision about the packets.
    pub kind: RouteKind,
    /// The next hops, chosen by weight; none when the packets are dropped.
    pub hops: Vec<Hop>,
    /// How far the network is. The kernel has no scope for IPv6.
    pub scope: Scope,
    /// Number of the table.
    pub table: u32,
    /// The route with the smallest metric is used; 0 leaves it to the kernel, which takes 0 for IPv4 and 1024 for
    /// IPv6.
    pub metric: u32,
    /// The source address of packets from this machine.
    pub source: Option<IpAddr>,
    /// The program that added the route (`RTPROT_*`, `/etc/iproute2/rt_protos`); the default is 3.
    pub protocol: u8,
    /// The largest packet that the way carries, in bytes.
    pub mtu: Option<u32>,
    /// The largest segment of TCP that is announced, in bytes.
    pub advertised_mss: Option<u32>,
}

/// The next machine of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the interface that packets leave through.
    pub interface: u32,
    /// The next router, of either family; `None` when the destinations are on the link.
    pub gateway: Option<IpAddr>,
    /// The router is on the link, whatever the routes say.
    pub onlink: bool,
    /// Its share of the packets, from 1 to 256, relative to the other hops.
    pub weight: u16,
    /// The outer header for an external tunnel.
    pub tunnel: Option<Tunnel>,
}

/// The outer header that a route gives to packets of an external tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The number of the tunnel, as VXLAN's VNI.
    pub id: u64,
    /// The machine at the other end.
    pub to: IpAddr,
}

impl Hop {
    /// A hop to destinations on the link of this interface.
    #[must_use]
    pub const fn on(interface: u32) -> Self {
        Self {
            interface,
            gateway: None,
            onlink: false,
            weight: 1,
            tunnel: None,
        }
    }

    /// A hop to a router on the link of this interface.
    #[must_use]
    pub const fn via(interface: u32, gateway: IpAddr) -> Self {
        Self {
            gateway: Some(gateway),
            ..Self::on(interface)
        }
    }

    fn flags(&self) -> u32 {
        if self.onlink { RTNH_F_ONLINK } else { 0 }
    }

    fn put(&self, family: Family, writer: &mut AttrWriter) {
        if let Some(gateway) = self.gateway {
            let of = Family::of(gateway);
            if of == family {
                writer.address(RTA_GATEWAY, gateway);
            } else {
                let number = u16::from(of.number()).to_ne_bytes();
                writer.joined(RTA_VIA, &[&number, &octets(gateway)]);
            }
        }
        if let Some(tunnel) = self.tunnel {
            let kind = match tunnel.to {
                IpAddr::V4(_) => ENCAP_IP,
                IpAddr::V6(_) => ENCAP_IP6,
            };
            writer.u16_ne(RTA_ENCAP_TYPE, kind);
            writer.nested(RTA_ENCAP, |it| {
                it.u64_be(ENCAP_ID, tunnel.id);
                it.address(ENCAP_DST, tunnel.to);
            });
        }
    }

    fn decode(family: Family, interface: u32, flags: u32, attrs: &Attrs<'_>) -> Self {
        let via = |it: Attr<'_>| {
            let number = u16::from_ne_bytes(it.array()?);
            Family::from_number(number)?.address(it.value.get(2..)?)
        };
        let gateway = attrs.find(RTA_GATEWAY);
        let gateway = gateway.and_then(|it| family.address(it.value));
        let outer = match attrs.u16_ne(RTA_ENCAP_TYPE) {
            Some(ENCAP_IP) => Some(Family::Ipv4),
            Some(ENCAP_IP6) => Some(Family::Ipv6),
            _ => None,
        };
        let encap = attrs.nested(RTA_ENCAP);
        let tunnel = outer.and_then(|outer| {
            Some(Tunnel {
                id: encap.u64_be(ENCAP_ID)?,
                to: outer.address(encap.find(ENCAP_DST)?.value)?,
            })
        });
        Self {
            interface,
            gateway: gateway.or_else(|| attrs.find(RTA_VIA).and_then(via)),
            onlink: flags & RTNH_F_ONLINK != 0,
            weight: 1,
            tunnel,
        }
    }

    /// Reads the hops of `RTA_MULTIPATH` up to the first that does not fit.
    fn decode_all(family: Family, mut bytes: &[u8]) -> Vec<Self> {
        let mut found = Vec::new();
        while let Some([l0, l1, flags, weight, index @ ..]) = bytes.first_chunk::<HOP_HEADER>() {
            let length = usize::from(u16::from_ne_bytes([*l0, *l1]));
            let Some(attrs) = bytes.get(HOP_HEADER..length) else {
                break;
            };
            let (interface, flags) = (u32::from_ne_bytes(*index), u32::from(*flags));
            found.push(Self {
                weight: u16::from(*weight) + 1,
                ..Self::decode(family, interface, flags, &Attrs::new(attrs))
            });
            bytes = bytes.get(align(length)..).unwrap_or_default();
        }
        found
    }
}

impl Route {
    /// A route to a network, in the main table.
    #[must_use]
    pub fn new(to: impl Into<IpNet>, hop: Hop) -> Self {
        let scope = if hop.gateway.is_some() || hop.tunnel.is_some() {
            Scope::GLOBAL
        } else {
            Scope::LINK
        };
        Self {
            to: to.into(),
            kind: RouteKind::UNICAST,
            hops: vec![hop],
            scope,
            table: MAIN_TABLE,
            metric: 0,
            source: None,
            protocol: 3,
            mtu: None,
            advertised_mss: None,
        }
    }

    /// The default route of the gateway's family, in the main table.
    #[must_use]
    pub fn default_via(interface: u32, gateway: IpAddr) -> Self {
        let any = match gateway {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self::new(net(any, 0), Hop::via(interface, gateway))
    }

    fn family(&self) -> Family {
        Family::of(self.to.addr())
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route {}", self.to)?;
        if let Some(gateway) = self.hops.first().and_then(|it| it.gateway) {
            write!(f, " via {gateway}")?;
        }
        Ok(())
    }
}

impl Listed for Route {
    const PLURAL: &'static str = "routes";
    const MESSAGES: Messages = Messages::from(24);
    const HEADER: usize = HEADER;

    fn decode(message: &Message<'_>) -> Option<Self> {
        let attrs = message.attrs_at(HEADER);
        let byte = |offset: usize| message.body.get(offset).copied();
        let family = Family::from_number(message.family())?;
        let address = |kind| family.address(attrs.find(kind)?.value);
        let any = family.address(&[0; 16])?;
        let to = address(RTA_DST).unwrap_or(any);
        let hops = match (attrs.find(RTA_MULTIPATH), attrs.u32_ne(RTA_OIF)) {
            (Some(all), _) => Hop::decode_all(family, all.value),
            (None, None) => Vec::new(),
            (None, Some(interface)) => {
                let flags = message.u32_at(FLAGS_OFFSET)?;
                vec![Hop::decode(family, interface, flags, &attrs)]
            }
        };
        let metrics = attrs.nested(RTA_METRICS);
        Some(Self {
            to: IpNet::new(to, byte(TO_OFFSET)?).ok()?,
            kind: RouteKind(byte(KIND_OFFSET)?),
            hops,
            scope: Scope(byte(SCOPE_OFFSET)?),
            table: attrs
                .u32_ne(RTA_TABLE)
                .unwrap_or(byte(TABLE_OFFSET)?.into()),
            metric: attrs.u32_ne(RTA_PRIORITY).unwrap_or_default(),
            source: address(RTA_PREFSRC),
            protocol: byte(PROTOCOL_OFFSET)?,
            mtu: metrics.u32_ne(RTAX_MTU),
            advertised_mss: metrics.u32_ne(RTAX_ADVMSS),
        })
    }
}

impl Object for Route {
    const MISSING: Errno = Errno::ESRCH;

    fn first(&self) -> [u8; 4] {
        [self.family().number(), self.to.prefix_len(), 0, 0]
    }

    fn put(&self, writer: &mut AttrWriter) {
        // The number of the table is in the attribute, which has 32 bits.
        writer.raw(&[0, self.protocol, self.scope.0, self.kind.0]);
        let single = match &*self.hops {
            [hop] => Some(hop),
            _ => None,
        };
        writer.raw(&single.map_or(0, Hop::flags).to_ne_bytes());
        writer.address(RTA_DST, self.to.network());
        writer.u32_ne(RTA_TABLE, self.table);
        if self.metric != 0 {
            writer.u32_ne(RTA_PRIORITY, self.metric);
        }
        writer.address(RTA_PREFSRC, self.source);
        let metrics = [(RTAX_MTU, self.mtu), (RTAX_ADVMSS, self.advertised_mss)];
        if metrics.iter().any(|it| it.1.is_some()) {
            writer.nested(RTA_METRICS, |it| {
                metrics
                    .iter()
                    .for_each(|(kind, value)| it.u32_ne(*kind, *value));
            });
        }
        if let Some(hop) = single {
            writer.u32_ne(RTA_OIF, hop.interface);
            hop.put(self.family(), writer);
        } else if !self.hops.is_empty() {
            writer.nested(RTA_MULTIPATH, |it| {
                self.hops
                    .iter()
                    .for_each(|hop| put_one(hop, self.family(), it));
            });
        }
    }
}

/// Writes one of several hops.
fn put_one(hop: &Hop, family: Family, writer: &mut AttrWriter) {
    let start = writer.len();
    let weight = u8::try_from(hop.weight.saturating_sub(1)).unwrap_or(u8::MAX);
    let flags = if hop.onlink { RTNH_F_ONLINK as u8 } else { 0 };
    writer.raw(&[0, 0, flags, weight]);
    writer.raw(&hop.interface.to_ne_bytes());
    hop.put(family, writer);
    // The kernel refuses the wrong length of a hop that is too long.
    let length = u16::try_from(writer.len() - start).unwrap_or(u16::MAX);
    writer.patch(start, &length.to_ne_bytes());
}

fn net(ip: IpAddr, prefix: u8) -> IpNet {
    IpNet::new(ip, prefix).unwrap_or_else(|_| ip.into())
}
