//! Neighbours: the MAC address of an IP address, and the port or machine behind a MAC address (FDB).

use std::fmt;
use std::net::IpAddr;

use nix::errno::Errno;
use sluice_netlink::Family;
use sluice_netlink::attr::{AttrWriter, Attrs};
use sluice_netlink::message::Message;

use crate::connection::{Listed, Messages, Object};
use crate::mac::Mac;

/// `ndmsg { u8 family, u8 padding, u16 padding, u32 interface, u16 state, u8 flags, u8 type }`.
const HEADER: usize = 12;
const INDEX_OFFSET: usize = 4;
const STATE_OFFSET: usize = 8;
const FLAGS_OFFSET: usize = 10;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_VLAN: u16 = 5;
const NDA_PORT: u16 = 6;
const NDA_VNI: u16 = 7;
const NDA_IFINDEX: u16 = 8;
/// `RTM_NEWNEIGH`.
const MESSAGES: Messages = Messages::from(28);
const AF_BRIDGE: u8 = 7;
/// The entry is in the interface's own database, as of a VXLAN tunnel; otherwise in its bridge's.
const NTF_SELF: u8 = 0x02;
const NTF_MASTER: u8 = 0x04;
const NTF_PROXY: u8 = 0x08;

/// `NUD_*`: how sure the kernel is of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(pub u16);

impl State {
    /// The neighbour answered a while ago.
    pub const STALE: Self = Self(0x04);
    /// No machine answers.
    pub const FAILED: Self = Self(0x20);
    /// The kernel does not ask the neighbour. Of an FDB of a bridge: the entry does not age.
    pub const NOARP: Self = Self(0x40);
    /// The kernel does not ask the neighbour, and the entry stays until it is deleted. Of an FDB of a bridge: the
    /// address is the machine's own.
    pub const PERMANENT: Self = Self(0x80);
}

/// The MAC address of an IP address on the link of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface.
    pub interface: u32,
    /// The neighbour's address.
    pub ip: IpAddr,
    /// `None` while it is not known, and of an address that this machine answers for.
    pub mac: Option<Mac>,
    /// How sure the kernel is of the entry.
    pub state: State,
    /// This machine answers for the address (proxy ARP, proxy NDP).
    pub is_proxy: bool,
}

impl Neighbour {
    /// An entry that stays until it is deleted.
    #[must_use]
    pub const fn permanent(interface: u32, ip: IpAddr, mac: Mac) -> Self {
        Self {
            interface,
            ip,
            mac: Some(mac),
            state: State::PERMANENT,
            is_proxy: false,
        }
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "neighbour {}", self.ip)
    }
}

impl Listed for Neighbour {
    const PLURAL: &'static str = "neighbours";
    const MESSAGES: Messages = MESSAGES;
    const HEADER: usize = HEADER;

    fn decode(message: &Message<'_>) -> Option<Self> {
        let attrs = message.attrs_at(HEADER);
        let family = Family::from_number(message.family())?;
        Some(Self {
            interface: message.u32_at(INDEX_OFFSET)?,
            ip: family.address(attrs.find(NDA_DST)?.value)?,
            mac: mac(&attrs),
            state: State(message.u16_at(STATE_OFFSET)?),
            is_proxy: message.body.get(FLAGS_OFFSET)? & NTF_PROXY != 0,
        })
    }
}

impl Object for Neighbour {
    const MISSING: Errno = Errno::ENOENT;

    fn first(&self) -> [u8; 4] {
        [Family::of(self.ip).number(), 0, 0, 0]
    }

    fn put(&self, writer: &mut AttrWriter) {
        let flags = if self.is_proxy { NTF_PROXY } else { 0 };
        put_header(writer, self.interface, self.state, flags);
        writer.address(NDA_DST, self.ip);
        if let Some(mac) = self.mac {
            writer.bytes(NDA_LLADDR, &mac.0);
        }
    }
}

/// An entry of a forwarding database: where frames to a MAC address go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Index of the port of a bridge, or of a VXLAN tunnel.
    pub interface: u32,
    /// Of a tunnel, all zeros stands for every address that has no entry.
    pub mac: Mac,
    /// The database: the interface's own (of a tunnel), or that of its bridge.
    pub is_own: bool,
    /// How sure the kernel is of the entry.
    pub state: State,
    /// Of a tunnel: the machine that has the address.
    pub to: Option<IpAddr>,
    /// Of a tunnel: another UDP port than the tunnel's.
    pub port: Option<u16>,
    /// Of a tunnel: another number (VNI) than the tunnel's.
    pub id: Option<u32>,
    /// Of a tunnel: index of the interface that the outer packet leaves through.
    pub through: Option<u32>,
    /// Of a bridge: the VLAN.
    pub vlan: Option<u16>,
}

impl Forward {
    /// Frames to `mac` go through a tunnel to the machine `to`; the entry stays until it is deleted.
    #[must_use]
    pub const fn to(tunnel: u32, mac: Mac, to: IpAddr) -> Self {
        Self {
            is_own: true,
            to: Some(to),
            state: State::PERMANENT,
            ..Self::through(tunnel, mac)
        }
    }

    /// Frames to `mac` go through a port of a bridge; the entry stays until it is deleted.
    #[must_use]
    pub const fn through(port: u32, mac: Mac) -> Self {
        Self {
            interface: port,
            mac,
            is_own: false,
            state: State::NOARP,
            to: None,
            port: None,
            id: None,
            through: None,
            vlan: None,
        }
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FDB entry {}", self.mac)
    }
}

impl Listed for Forward {
    const PLURAL: &'static str = "FDB entries";
    const MESSAGES: Messages = MESSAGES;
    const HEADER: usize = HEADER;
    const FAMILY: u8 = AF_BRIDGE;

    fn decode(message: &Message<'_>) -> Option<Self> {
        let attrs = message.attrs_at(HEADER);
        if message.family() != AF_BRIDGE {
            return None;
        }
        let to = attrs.find(NDA_DST).and_then(|it| match it.value.len() {
            4 => Family::Ipv4.address(it.value),
            _ => Family::Ipv6.address(it.value),
        });
        Some(Self {
            interface: message.u32_at(INDEX_OFFSET)?,
            mac: mac(&attrs)?,
            is_own: message.body.get(FLAGS_OFFSET)? & NTF_SELF != 0,
            state: State(message.u16_at(STATE_OFFSET)?),
            to,
            port: attrs.u16_be(NDA_PORT),
            id: attrs.u32_ne(NDA_VNI),
            through: attrs.u32_ne(NDA_IFINDEX),
            vlan: attrs.u16_ne(NDA_VLAN),
        })
    }
}

impl Object for Forward {
    const MISSING: Errno = Errno::ENOENT;

    fn first(&self) -> [u8; 4] {
        [AF_BRIDGE, 0, 0, 0]
    }

    fn put(&self, writer: &mut AttrWriter) {
        let flags = if self.is_own { NTF_SELF } else { NTF_MASTER };
        put_header(writer, self.interface, self.state, flags);
        writer.bytes(NDA_LLADDR, &self.mac.0);
        writer.address(NDA_DST, self.to);
        writer.u16_be(NDA_PORT, self.port);
        writer.u32_ne(NDA_VNI, self.id);
        writer.u32_ne(NDA_IFINDEX, self.through);
        writer.u16_ne(NDA_VLAN, self.vlan);
    }
}

fn mac(attrs: &Attrs<'_>) -> Option<Mac> {
    attrs.find(NDA_LLADDR)?.array().map(Mac)
}

fn put_header(writer: &mut AttrWriter, interface: u32, state: State, flags: u8) {
    writer.raw(&interface.to_ne_bytes());
    let [low, high] = state.0.to_ne_bytes();
    writer.raw(&[low, high, flags, 0]);
}
