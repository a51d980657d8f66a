//! Kinds of interfaces, and their properties.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use sluice_netlink::Family;
use sluice_netlink::attr::{AttrWriter, Attrs};

use crate::link::{IFLA_LINK, Settings};

const VETH_INFO_PEER: u16 = 1;
const IFLA_BR_FORWARD_DELAY: u16 = 1;
const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_VLAN_FILTERING: u16 = 7;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
/// `USER_HZ`: the kernel counts in hundredths of a second.
const TICK: u128 = 10;
const IFLA_BRPORT_MODE: u16 = 4;
const IFLA_BRPORT_LEARNING: u16 = 8;
const IFLA_BRPORT_NEIGH_SUPPRESS: u16 = 32;
const IFLA_BRPORT_ISOLATED: u16 = 33;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_LINK: u16 = 3;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_LOCAL6: u16 = 17;
const IFLA_VXLAN_UDP_ZERO_CSUM6_TX: u16 = 19;
const IFLA_VXLAN_UDP_ZERO_CSUM6_RX: u16 = 20;
const IFLA_VXLAN_GBP: u16 = 23;
const IFLA_VXLAN_COLLECT_METADATA: u16 = 25;
const IFLA_MACVLAN_MODE: u16 = 1;
const IFLA_IPTUN_LOCAL: u16 = 2;
const IFLA_IPTUN_REMOTE: u16 = 3;
const IFLA_IPTUN_COLLECT_METADATA: u16 = 19;

/// The kind of a new interface.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the kernel's names of kinds say what they are")]
pub enum Kind<'a> {
    Bridge(Bridge),
    Dummy,
    /// A tunnel of IPv4 in IPv4. Without a remote end, the route of each packet names it (`external`).
    Ipip {
        local: Option<Ipv4Addr>,
        remote: Option<Ipv4Addr>,
    },
    /// An interface on top of another one, with a MAC address of its own.
    Macvlan {
        /// Index of the parent interface.
        parent: u32,
        mode: MacvlanMode,
    },
    /// A cable, with both ends: the peer has a name and settings of its own. It cannot be switched on at once: the
    /// kernel refuses that with `ENOTCONN`. Ends with equal indexes are taken for one without a peer, whose carrier
    /// changes are not urgent (`linkwatch_urgent_event`): its packets are lost for up to a second.
    Veth {
        peer: &'a str,
        settings: Settings<'a>,
    },
    Vxlan(Vxlan),
    Wireguard,
}

/// The packets that the interfaces of one parent may send to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MacvlanMode {
    /// No packets.
    Private = 1,
    /// Packets that the switch outside sends back.
    Vepa = 2,
    /// All packets, directly.
    Bridge = 4,
}

/// A bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bridge {
    /// The bridge speaks the spanning tree protocol.
    pub stp: bool,
    /// How long a new port listens before it forwards, when it speaks STP; in hundredths of a second.
    pub forward_delay: Duration,
    /// The bridge sends multicast only to ports that asked for it (IGMP, MLD).
    pub multicast_snooping: bool,
    /// Ports have VLANs.
    pub vlan_filtering: bool,
}

/// The port of a bridge. A setting that is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// A frame may leave through the port that it came through.
    pub hairpin: Option<bool>,
    /// The port exchanges frames only with ports that are not isolated.
    pub isolated: Option<bool>,
    /// The bridge learns the sources of the port's frames.
    pub learning: Option<bool>,
    /// The bridge answers ARP and NDP for the entries that it has.
    pub neighbour_suppression: Option<bool>,
}

impl Port {
    const fn options(&self) -> [(u16, Option<bool>); 4] {
        [
            (IFLA_BRPORT_MODE, self.hairpin),
            (IFLA_BRPORT_ISOLATED, self.isolated),
            (IFLA_BRPORT_LEARNING, self.learning),
            (IFLA_BRPORT_NEIGH_SUPPRESS, self.neighbour_suppression),
        ]
    }

    pub(crate) fn put(&self, writer: &mut AttrWriter) {
        for (kind, value) in self.options() {
            writer.u8(kind, value.map(u8::from));
        }
    }

    pub(crate) fn decode(attrs: &Attrs<'_>) -> Self {
        let flag = |kind| attrs.u8(kind).map(|it| it != 0);
        Self {
            hairpin: flag(IFLA_BRPORT_MODE),
            isolated: flag(IFLA_BRPORT_ISOLATED),
            learning: flag(IFLA_BRPORT_LEARNING),
            neighbour_suppression: flag(IFLA_BRPORT_NEIGH_SUPPRESS),
        }
    }
}

/// A VXLAN tunnel (RFC 7348).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// The VNI of all packets; `None`: the route of each packet names it and the remote end (`external`).
    pub id: Option<u32>,
    /// The source address of outer packets.
    pub local: Option<IpAddr>,
    /// Index of the interface that outer packets leave through.
    pub underlay: Option<u32>,
    /// UDP port, in both directions.
    pub port: u16,
    /// The tunnel learns the sources of its frames into its FDB.
    pub learning: bool,
    /// Packets carry a mark (group policy).
    pub group_policy: bool,
    /// Outer packets of IPv6 have no checksum of UDP. The packets inside have checksums of their own.
    pub zero_checksum: bool,
}

impl Vxlan {
    /// A tunnel that learns nothing.
    #[must_use]
    pub const fn new(id: Option<u32>, port: u16) -> Self {
        Self {
            id,
            local: None,
            underlay: None,
            port,
            learning: false,
            group_policy: false,
            zero_checksum: false,
        }
    }

    fn put(&self, writer: &mut AttrWriter) {
        match self.id {
            Some(id) => writer.u32_ne(IFLA_VXLAN_ID, id),
            None => writer.u8(IFLA_VXLAN_COLLECT_METADATA, 1),
        }
        if let Some(ip) = self.local {
            let kind = match ip {
                IpAddr::V4(_) => IFLA_VXLAN_LOCAL,
                IpAddr::V6(_) => IFLA_VXLAN_LOCAL6,
            };
            writer.address(kind, ip);
        }
        writer.u32_ne(IFLA_VXLAN_LINK, self.underlay);
        writer.u16_be(IFLA_VXLAN_PORT, self.port);
        writer.u8(IFLA_VXLAN_LEARNING, u8::from(self.learning));
        if self.group_policy {
            writer.bytes(IFLA_VXLAN_GBP, &[]);
        }
        for kind in [IFLA_VXLAN_UDP_ZERO_CSUM6_TX, IFLA_VXLAN_UDP_ZERO_CSUM6_RX] {
            writer.u8(kind, u8::from(self.zero_checksum));
        }
    }

    pub(crate) fn decode(attrs: &Attrs<'_>) -> Self {
        let flag = |kind| attrs.u8(kind).is_some_and(|it| it != 0);
        let local = |family: Family, kind| family.address(attrs.find(kind)?.value);
        let v4 = local(Family::Ipv4, IFLA_VXLAN_LOCAL);
        let is_external = flag(IFLA_VXLAN_COLLECT_METADATA);
        Self {
            id: attrs.u32_ne(IFLA_VXLAN_ID).filter(|_| !is_external),
            local: v4.or_else(|| local(Family::Ipv6, IFLA_VXLAN_LOCAL6)),
            underlay: attrs.u32_ne(IFLA_VXLAN_LINK).filter(|it| *it != 0),
            port: attrs.u16_be(IFLA_VXLAN_PORT).unwrap_or_default(),
            learning: flag(IFLA_VXLAN_LEARNING),
            group_policy: attrs.find(IFLA_VXLAN_GBP).is_some(),
            zero_checksum: flag(IFLA_VXLAN_UDP_ZERO_CSUM6_TX),
        }
    }
}

impl Kind<'_> {
    /// The kernel's name of the kind.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Bridge(_) => "bridge",
            Self::Dummy => "dummy",
            Self::Ipip { .. } => "ipip",
            Self::Macvlan { .. } => "macvlan",
            Self::Veth { .. } => "veth",
            Self::Vxlan(_) => "vxlan",
            Self::Wireguard => "wireguard",
        }
    }

    /// The name of the kind in errors.
    pub(crate) const fn shown(&self) -> &'static str {
        match self {
            Self::Vxlan(_) => "VXLAN",
            _ => self.name(),
        }
    }

    /// Writes the attributes beside those of the kind.
    pub(crate) fn put_parent(&self, writer: &mut AttrWriter) {
        if let Self::Macvlan { parent, .. } = self {
            writer.u32_ne(IFLA_LINK, *parent);
        }
    }

    /// Writes `IFLA_INFO_DATA`.
    pub(crate) fn put(&self, writer: &mut AttrWriter) {
        match self {
            Self::Dummy | Self::Wireguard => {}
            Self::Bridge(bridge) => {
                let ticks = bridge.forward_delay.as_millis() / TICK;
                let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
                writer.u32_ne(IFLA_BR_FORWARD_DELAY, ticks);
                writer.u32_ne(IFLA_BR_STP_STATE, u32::from(bridge.stp));
                // A kernel without VLAN filtering refuses the attribute even with the value off.
                if bridge.vlan_filtering {
                    writer.u8(IFLA_BR_VLAN_FILTERING, 1);
                }
                writer.u8(IFLA_BR_MCAST_SNOOPING, u8::from(bridge.multicast_snooping));
            }
            Self::Ipip { local, remote } => {
                writer.address(IFLA_IPTUN_LOCAL, local.map(IpAddr::V4));
                writer.address(IFLA_IPTUN_REMOTE, remote.map(IpAddr::V4));
                if remote.is_none() {
                    writer.bytes(IFLA_IPTUN_COLLECT_METADATA, &[]);
                }
            }
            Self::Macvlan { mode, .. } => writer.u32_ne(IFLA_MACVLAN_MODE, *mode as u32),
            Self::Veth { peer, settings } => writer.nested(VETH_INFO_PEER, |it| {
                it.raw(&[0; 4]);
                settings.put(settings.index.unwrap_or_default(), peer, it);
            }),
            Self::Vxlan(vxlan) => vxlan.put(writer),
        }
    }
}
