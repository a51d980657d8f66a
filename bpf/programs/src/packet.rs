//! Reading of packets.

use aya_ebpf::bindings::bpf_hdr_start_off::BPF_HDR_START_NET;
use aya_ebpf::helpers::bpf_skb_load_bytes_relative;
use aya_ebpf::programs::TcContext;
use core::mem::{MaybeUninit, size_of};
use sluice_bpf_abi::{
    Addr, Fragment, FragmentKey, SCTP, TCP, Tuple, UDP, interface_flags, node_flags,
};

use crate::global::global;
use crate::maps::{FRAGMENTS, INTERFACES, node_flag};

pub const ICMP: u8 = 1;
pub const ICMP_V6: u8 = 58;
const ETHERTYPE_V4: u32 = 0x0800_u16.to_be() as u32;
const ETHERTYPE_V6: u32 = 0x86dd_u16.to_be() as u32;
pub const ETHERNET: u32 = 14;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Type of the chunk that opens a connection of SCTP (RFC 9260, 3.3.2).
const INIT: u8 = 1;

/// Bytes of [`Transport`].
const TRANSPORT: usize = size_of::<Transport>();

/// Extension headers of IPv6 before the transport header, at most.
const EXTENSIONS: usize = 6;

/// In place of a protocol: the packet has no IP header. No protocol has this number (IANA: reserved).
const NOT_READ: u32 = 255;

/// A packet's addresses, and where its headers are.
pub struct Packet {
    /// Network and transport header, read by one call where the packet is long enough. Here, because the stack is small.
    pub head: Head,
    pub tuple: Tuple,
    /// Offset of the transport header from the network header.
    pub transport: u32,
    /// Bytes from the transport header to the end.
    pub length: u32,
    /// TCP: the sequence number of its first byte. Like the next three it is not written for other protocols.
    pub sequence: u32,
    /// TCP: the acknowledgement number, whatever the flags say.
    pub acknowledged: u32,
    /// TCP: length of the header in bytes.
    pub header: u32,
    /// TCP: the window as it stands in the packet.
    pub window: u16,
    /// Flags of TCP; for SCTP [`SYN`] for a packet that begins with INIT.
    pub flags: u8,
    pub is_v4: bool,
    /// The packet has a transport header. False for the fragments of a datagram behind the first.
    pub has_ports: bool,
    /// The packet is of ICMP: it has type and code, and no ports.
    pub is_icmp: bool,
    /// A router may fragment the packet: IPv4 without "don't fragment".
    pub may_be_fragmented: bool,
    /// Which fragment of a datagram it is.
    pub piece: Piece,
    /// Identification of a fragment's datagram, as in the packet.
    pub id: u32,
}

/// The place of a packet in its datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Piece {
    /// The packet is a datagram, or a later fragment whose ports are known.
    Whole,
    /// The first fragment.
    First,
    /// A later fragment, which arrived before the first.
    Early,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ipv4 {
    pub version_length: u8,
    pub service: u8,
    pub length: u16,
    pub id: u16,
    pub fragment: u16,
    pub lifetime: u8,
    pub protocol: u8,
    pub checksum: u16,
    pub source: u32,
    pub destination: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ipv6 {
    pub version: u32,
    pub length: u16,
    pub next: u8,
    pub lifetime: u8,
    pub source: [u32; 4],
    pub destination: [u32; 4],
}

/// The first bytes of a transport header, up to TCP's window.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Transport {
    ports: [u16; 2],
    words: [u32; 2],
    /// In an SCTP packet, the type of the first chunk.
    byte_12: u8,
    tcp_flags: u8,
    window: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HeadV4 {
    pub network: Ipv4,
    transport: Transport,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HeadV6 {
    network: Ipv6,
    transport: Transport,
}

#[repr(C)]
pub union Head {
    pub v4: HeadV4,
    v6: HeadV6,
}

/// Reads a value at this offset from the network header.
#[inline(always)]
pub fn load<T>(ctx: &TcContext, offset: u32) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    let size = size_of::<T>() as u32;
    let is_there = load_into(ctx, offset, value.as_mut_ptr().cast(), size);
    // SAFETY: written by the helper.
    is_there.then(|| unsafe { value.assume_init() })
}

/// Reads `size` bytes into `to`, which has room for them. False: the packet is shorter.
#[inline(always)]
fn load_into(ctx: &TcContext, offset: u32, to: *mut u8, size: u32) -> bool {
    let skb = ctx.skb.skb.cast();
    // SAFETY: the helper writes all bytes, or fails.
    unsafe { bpf_skb_load_bytes_relative(skb, offset, to.cast(), size, BPF_HDR_START_NET) == 0 }
}

/// Whether the packet is of IPv6, by its Ethernet type.
#[inline(always)]
pub fn is_v6(ctx: &TcContext) -> bool {
    ctx.skb.protocol() == ETHERTYPE_V6
}

/// Offset of the network header in the packet: 0 on interfaces without Ethernet.
#[inline(always)]
pub fn network_offset(ctx: &TcContext) -> u32 {
    if !node_flag(node_flags::LAYER_3) {
        return ETHERNET;
    }
    // SAFETY: the context is valid for the run of the program.
    let ifindex = unsafe { (*ctx.skb.skb).ifindex };
    // SAFETY: the agent replaces whole values.
    match unsafe { INTERFACES.get(&ifindex) } {
        Some(it) if it.flags & interface_flags::LAYER_3 != 0 => 0,
        _ => ETHERNET,
    }
}

global!(
    /// Parses the packet whose IP header is `at` bytes behind the network header. False: no Service could get it, or it
    /// is a fragment whose first fragment did not come this way.
    pub fn parse(ctx, packet: &mut Packet, at: u32) -> bool = parse_body else false
);

#[inline(always)]
fn parse_body(ctx: &TcContext, packet: &mut Packet, at: u32) -> bool {
    packet.tuple.source_port = 0;
    packet.tuple.destination_port = 0;
    packet.tuple.protocol = NOT_READ;
    packet.flags = 0;
    packet.is_v4 = false;
    packet.may_be_fragmented = false;
    packet.piece = Piece::Whole;
    let parsed = match ctx.skb.protocol() {
        ETHERTYPE_V4 => packet.parse_v4(ctx, at),
        ETHERTYPE_V6 => packet.parse_v6(ctx, at),
        _ => None,
    };
    parsed.is_some()
}

impl Packet {
    /// After [`parse`] was false: whether the transport header lies behind more extension headers of IPv6 than the
    /// programs read. The kernel reads on.
    #[inline(always)]
    pub fn has_more_extensions(&self) -> bool {
        !self.is_v4 && matches!(self.tuple.protocol, 0 | 43 | 44 | 60)
    }

    /// The datagram that a fragment is of.
    #[inline(always)]
    pub fn datagram(&self) -> FragmentKey {
        FragmentKey {
            source: self.tuple.source,
            destination: self.tuple.destination,
            id: self.id,
            protocol: self.tuple.protocol,
        }
    }

    /// Protocol number.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        self.tuple.protocol as u8
    }

    /// TCP: bytes behind the header. A packet that the kernel has put together of many may be longer than its header can say
    /// ("BIG TCP").
    #[inline(always)]
    pub fn payload(&self, ctx: &TcContext) -> u32 {
        let length = match self.length {
            1..=0xffff => self.length,
            _ => ctx.len().wrapping_sub(network_offset(ctx) + self.transport),
        };
        length.saturating_sub(self.header)
    }

    /// Whether the packet may open a connection.
    #[inline(always)]
    pub fn opens(&self) -> bool {
        match self.protocol() {
            TCP => self.flags & (SYN | ACK) == SYN,
            SCTP => self.flags & SYN != 0,
            _ => true,
        }
    }
}

impl Packet {
    #[inline(always)]
    fn parse_v4(&mut self, ctx: &TcContext, at: u32) -> Option<()> {
        let to = (&raw mut self.head.v4).cast();
        let is_whole = load_into(ctx, at, to, (size_of::<Ipv4>() + TRANSPORT) as u32);
        if !is_whole && !load_into(ctx, at, to, size_of::<Ipv4>() as u32) {
            return None;
        }
        // SAFETY: read just now.
        let HeadV4 {
            network: header,
            transport,
        } = unsafe { self.head.v4 };
        if header.version_length >> 4 != 4 {
            return None;
        }
        let fragment = u16::from_be(header.fragment);
        let (offset, more) = (fragment & 0x1fff, fragment & 0x2000 != 0);
        self.tuple.source = Addr::v4(header.source);
        self.tuple.destination = Addr::v4(header.destination);
        self.tuple.protocol = header.protocol.into();
        let header_length = u32::from(header.version_length & 15) * 4;
        self.transport = at + header_length;
        self.length = u32::from(u16::from_be(header.length)).wrapping_sub(header_length);
        self.is_v4 = true;
        self.has_ports = offset == 0;
        self.is_icmp = header.protocol == ICMP;
        self.may_be_fragmented = fragment & 0x4000 == 0;
        let is_read = is_whole && header_length == size_of::<Ipv4>() as u32;
        self.read_transport(ctx, is_read.then_some(&transport))?;
        if offset != 0 || more {
            self.fragment(u32::from(header.id), at)?;
        }
        Some(())
    }

    #[inline(always)]
    fn parse_v6(&mut self, ctx: &TcContext, at: u32) -> Option<()> {
        let to = (&raw mut self.head.v6).cast();
        let is_whole = load_into(ctx, at, to, (size_of::<Ipv6>() + TRANSPORT) as u32);
        if !is_whole && !load_into(ctx, at, to, size_of::<Ipv6>() as u32) {
            return None;
        }
        // SAFETY: read just now.
        let HeadV6 {
            network: header,
            transport,
        } = unsafe { self.head.v6 };
        if u32::from_be(header.version) >> 28 != 6 {
            return None;
        }
        self.tuple.source.words = header.source;
        self.tuple.destination.words = header.destination;
        self.tuple.protocol = header.next.into();
        self.transport = at + size_of::<Ipv6>() as u32;
        self.length = u16::from_be(header.length).into();
        self.has_ports = true;
        // Two values: the verifier would find that of an option unset.
        let (mut is_fragment, mut id) = (false, 0);
        for _ in 0..EXTENSIONS {
            let length = match self.tuple.protocol {
                // Hop-by-hop options, routing, destination options.
                0 | 43 | 60 => {
                    let [next, length]: [u8; 2] = load(ctx, self.transport)?;
                    self.tuple.protocol = next.into();
                    (u32::from(length) + 1) * 8
                }
                // Fragment.
                44 => {
                    let [first, of_datagram]: [u32; 2] = load(ctx, self.transport)?;
                    let first = u32::from_be(first);
                    self.tuple.protocol = first >> 24;
                    self.has_ports = first & 0xfff8 == 0;
                    (is_fragment, id) = (true, of_datagram);
                    8
                }
                _ => break,
            };
            self.transport += length;
            self.length = self.length.wrapping_sub(length);
        }
        self.is_icmp = self.tuple.protocol == u32::from(ICMP_V6);
        let is_read = is_whole && self.transport == at + size_of::<Ipv6>() as u32;
        self.read_transport(ctx, is_read.then_some(&transport))?;
        // Nobody has a mapped address of IPv4, and the tuple would be an IPv4 client's.
        if self.tuple.source.is_v4() || self.tuple.destination.is_v4() {
            return None;
        }
        if is_fragment {
            self.fragment(id, at)?;
        }
        Some(())
    }
}

impl Packet {
    /// Takes ports and flags from the transport header, which was read already or is read now.
    #[inline(always)]
    fn read_transport(&mut self, ctx: &TcContext, read: Option<&Transport>) -> Option<()> {
        if self.is_icmp {
            return self.has_ports.then_some(());
        }
        if !matches!(self.protocol(), TCP | UDP | SCTP) {
            return None;
        }
        if !self.has_ports {
            return Some(());
        }
        if let Some(header) = read {
            self.tuple.source_port = u16::from_be(header.ports[0]);
            self.tuple.destination_port = u16::from_be(header.ports[1]);
            self.flags = match self.protocol() {
                TCP => self.read_tcp(header),
                SCTP if header.byte_12 == INIT => SYN,
                _ => 0,
            };
            return Some(());
        }
        let ports: [u16; 2] = load(ctx, self.transport)?;
        self.tuple.source_port = u16::from_be(ports[0]);
        self.tuple.destination_port = u16::from_be(ports[1]);
        self.flags = match self.protocol() {
            // The packet inside an ICMP error may end before the flags.
            TCP => load(ctx, self.transport).map_or(0, |it| self.read_tcp(&it)),
            SCTP => match load::<u8>(ctx, self.transport + 12) {
                Some(INIT) => SYN,
                _ => 0,
            },
            _ => 0,
        };
        Some(())
    }

    /// Takes the numbers of TCP, and returns its flags.
    #[inline(always)]
    fn read_tcp(&mut self, header: &Transport) -> u8 {
        self.sequence = u32::from_be(header.words[0]);
        self.acknowledged = u32::from_be(header.words[1]);
        self.header = u32::from(header.byte_12 >> 4) * 4;
        self.window = u16::from_be(header.window);
        header.tcp_flags
    }

    /// Writes the ports of a first fragment into FRAGMENTS, where the later ones find theirs. `None` for a later one
    /// whose first fragment did not come this way. What an ICMP error quotes writes nothing: anybody may have made it up.
    #[inline(always)]
    fn fragment(&mut self, id: u32, at: u32) -> Option<()> {
        self.id = id;
        let key = self.datagram();
        if self.has_ports {
            let ports = Fragment {
                source_port: self.tuple.source_port,
                destination_port: self.tuple.destination_port,
            };
            self.piece = Piece::First;
            if at != 0 {
                return Some(());
            }
            return FRAGMENTS.insert(&key, &ports, 0).ok();
        }
        // SAFETY: a torn read would need two datagrams with one id at the same moment.
        let Some(ports) = (unsafe { FRAGMENTS.get(&key) }) else {
            self.piece = Piece::Early;
            return None;
        };
        self.tuple.source_port = ports.source_port;
        self.tuple.destination_port = ports.destination_port;
        Some(())
    }
}
